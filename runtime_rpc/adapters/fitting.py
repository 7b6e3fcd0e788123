"""Compares the adapters of a file with those of a step, by name and shape."""

from collections.abc import Mapping

import numpy as np

from odtc.core.adapters import from_peft
from odtc.core.errors import ArtifactError

_HINT = "use adapters of the same model, rank and targets"


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
        name, n = differing[0], len(differing)
        raise ArtifactError(
            f"the adapters do not fit the step: {n} tensor{'s differ' if n > 1 else ' differs'}, "
            f"such as {name!r}, {_side(found, name)} in the file and {_side(expected, name)} in "
            "the step",
            where=where,
            hint=_HINT,
        )
    return tensors


def _side(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    """A tensor's shape as PEFT lays it out, as files have it."""
    shape = shapes.get(name)
    if shape is None:
        return "missing"
    return str(list(shape[::-1] if len(shape) == 2 else shape))
