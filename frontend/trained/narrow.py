"""Frozen weights of half precision stay as the file has them: half of the bytes.

float16 is a type of kernels; bfloat16 is kept as the upper halves of float32, which few CPUs read.

All that is trained has a float32 master (`frontend/normalize/widen.py`). What is not is only read,
and each element is widened where it is: in the panels of products, and in rows of a table.
"""

from collections.abc import Mapping

import numpy as np

from odtc.core.coded import BFLOAT16, Coded
from odtc.frontend.graph import Graph
from odtc.frontend.trained.selection import Selection

_HALVES, _MATRIX = ("float16", "bfloat16"), 2


def narrow_frozen(graph: Graph, stored: Mapping[str, np.ndarray], selection: Selection) -> None:
    """Puts matrices that are not trained back to their own type, in place, and notes it.

    Args:
        graph: normalised.
        stored: the weights as they are in the file.
        selection: what is trained.
    """
    frozen = [name for name in graph.parameters if name not in selection.trained]
    for half in _HALVES:
        narrowed = [
            name for name in frozen if _is_half(graph.parameters[name], stored.get(name), half)
        ]
        graph.parameters |= {name: _kept(stored[name], half) for name in narrowed}
        if half == BFLOAT16:
            graph.coded |= {name: _coded(name, stored[name].shape) for name in narrowed}
        if narrowed:
            count = f"{len(narrowed)} of the weights in {half} are not trained"
            graph.notes.append(f"{count}: these stay {half}, and are widened where they are read")


def _kept(value: np.ndarray, half: str) -> np.ndarray:
    """A matrix as it is stored; NumPy and kernels have no bfloat16."""
    return value.view(np.uint16) if half == BFLOAT16 else value


def _coded(name: str, shape: tuple[int, ...]) -> Coded:
    return Coded(name, BFLOAT16, shape, (1,) * len(shape))


def _is_half(value: np.ndarray, stored: np.ndarray | None, half: str) -> bool:
    """Whether a matrix is what the file holds in a type of half precision."""
    if stored is None or stored.dtype.name != half or value.ndim != _MATRIX:
        return False
    return value.dtype == np.float32 and np.array_equal(stored.astype(np.float32), value)
