"""Arrays that lack an axis of size 1, or have one too many: nothing else could be meant."""

from collections.abc import Sequence

import numpy as np

from odtc.core.ir.place import Place
from odtc.core.specs import Argument


def with_axes_of_one(array: np.ndarray, item: Argument) -> np.ndarray:
    """The array with the axes of the step, where only those of size 1 differ; else as it is.

    Images [samples, 28, 28] are [samples, 1, 28, 28], and labels [samples] are [samples, 1].
    """
    wanted = item.spec.shape[1:]
    if item.place != Place(0) or not array.ndim or array.shape[1:] == wanted:
        return array
    # Of others the whole would be copied.
    if _larger(array.shape[1:]) != _larger(wanted) or not array.flags.c_contiguous:
        return array
    return array.reshape(len(array), *wanted)


def note_of_shape(
    where: str, name: str, found: Sequence[int | str], taken: Sequence[int | str]
) -> str:
    """What is said of an array whose axes of size 1 were others."""
    shapes = (f"[{', '.join(map(str, each))}]" for each in (found, taken))
    return f"{where}: {name} has shape {next(shapes)}, and is taken as {next(shapes)}"


def _larger(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]
