"""Frozen weights of half precision stay as the file has them: half of the bytes.

All that is trained has a float32 master (`frontend/normalize/widen.py`). What is not is only read,
and each element is widened where it is: in the panels of products, and in rows of a table.
"""

from collections.abc import Mapping

import numpy as np

from odtc.frontend.graph import Graph
from odtc.frontend.trained.selection import Selection

_HALF, _MATRIX = "float16", 2


def narrow_frozen(graph: Graph, stored: Mapping[str, np.ndarray], selection: Selection) -> None:
    """Puts matrices that are not trained back to float16, in place, and notes it.

    Args:
        graph: normalised.
        stored: the weights as they are in the file.
        selection: what is trained.
    """
    narrowed = [
        name
        for name, value in graph.parameters.items()
        if name not in selection.trained and _is_half(value, stored.get(name))
    ]
    graph.parameters |= {name: stored[name] for name in narrowed}
    if narrowed:
        count = f"{len(narrowed)} of the weights in float16 are not trained"
        graph.notes.append(f"{count}: these stay float16, and are widened where they are read")


def _is_half(value: np.ndarray, stored: np.ndarray | None) -> bool:
    """Whether a matrix is what the file holds in float16."""
    if stored is None or stored.dtype.name != _HALF or value.ndim != _MATRIX:
        return False
    return value.dtype == np.float32 and np.array_equal(stored.astype(np.float32), value)
