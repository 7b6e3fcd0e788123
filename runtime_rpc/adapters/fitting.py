"""Compares the adapters of a file with those of a step, by name and shape."""

from collections.abc import Mapping

import numpy as np

from odtc.core.adapters import from_peft
from odtc.core.errors import ArtifactError

_HINT = "take adapters of the same model, rank and targets"


def fitted(
    stored: Mapping[str, np.ndarray], expected: Mapping[str, tuple[int, ...]], where: str
) -> dict[str, np.ndarray]:
    """The tensors by the names of the step's arguments, in their layout.

    Args:
        stored: as PEFT names them and lays them out.
        expected: shapes in the step, by name.
        where: the file.

    Raises:
        ArtifactError: a tensor is missing, left over, of another shape, or of integers.
    """
    whole = sorted(name for name, value in stored.items() if value.dtype.kind != "f")
    if whole:
        raise ArtifactError(
            f"adapters are floating-point numbers, and {whole[0]} is of {stored[whole[0]].dtype}",
            where=where,
            hint=_HINT,
        )
    tensors = dict(from_peft(name, value) for name, value in stored.items())
    found = {name: value.shape for name, value in tensors.items()}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        name = differing[0]
        raise ArtifactError(
            f"the adapters do not fit the step: {len(differing)} tensors differ, such as {name!r}, "
            f"{_side(found, name)} in the file and {_side(expected, name)} in the step",
            where=where,
            hint=_HINT,
        )
    return tensors


def _side(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    return str(list(shapes[name])) if name in shapes else "not there"
