"""What is worth to be said of arrays of samples, before a step takes them."""

from collections.abc import Iterator

import numpy as np

from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.mapped import is_mapped
from odtc.runtime_rpc.data.names import ToldSample, listed, sample_of_all

# Of a batch without images: samples, and what each holds.
_AXES = 2
# Elements that are looked at together.
_PIECE = 1 << 22
# Above it a classifier that always says the same seems good. Of more classes, such as words, that
# some have no sample is usual.
_MOST_SHARE, _MOST_CLASSES = 0.8, 10_000
# Of fewer samples it means nothing.
_LEAST = 10


def lost_of(*, is_predicted: bool) -> str:
    """What there is none of over numbers that are not finite."""
    return "a prediction" if is_predicted else "a loss"


def notes_of_input(
    array: np.ndarray, item: Argument, where: str, *, is_predicted: bool
) -> Iterator[str]:
    """What is to be said of an input; `is_predicted` where there is no loss over it."""
    if said := note_of_bytes(array, item, where):
        yield said
    yield from note_of_numbers(array, item, where, lost_of(is_predicted=is_predicted))


def note_of_bytes(array: np.ndarray, item: Argument, where: str) -> str:
    """What is to be said of images of bytes for an input of floats; empty of others."""
    is_float = item.spec.dtype.startswith("float")
    if array.dtype != np.uint8 or not is_float or len(item.spec.shape) <= _AXES:
        return ""
    return (
        f"{where}: {printable(item.spec.name)} holds bytes, 0 to 255, which are fed as they "
        "are: where the model does not scale them, divide them by 255, or compile it with "
        "--normalize"
    )


def note_of_numbers(
    array: np.ndarray,
    item: Argument,
    where: str,
    what: str = "a loss",
    called: ToldSample = sample_of_all,
) -> Iterator[str]:
    """What is to be said of numbers that are not finite, over which `what` is none.

    Those that stay in their file are not read for it: `Taking` looks at what is taken of them.
    """
    if said := wrong_numbers(array, item, called):
        yield f"{where}: {said}: {what} over them is none"


def wrong_numbers(array: np.ndarray, item: Argument, called: ToldSample = sample_of_all) -> str:
    """How many numbers are not finite, and the first of them; empty where all are."""
    if array.dtype.kind != "f" or is_mapped(array) or not array.ndim or _is_finite(array):
        return ""
    count, first = 0, None
    step = max(_PIECE * len(array) // max(array.size, 1), 1)
    for start in range(0, len(array), step):
        wrong = ~np.isfinite(array[start : start + step])
        if first is None and wrong.any():
            at = np.unravel_index(int(wrong.argmax()), wrong.shape)
            first = (start + int(at[0]), *map(int, at[1:]))
        count += int(wrong.sum())
    if first is None:
        return ""
    return (
        f"{count} of {array.size} numbers of {printable(item.spec.name)} are not finite, the first "
        f"is {array[first]} in {called(_sample_of(first, array, item))}"
    )


def _is_finite(array: np.ndarray) -> bool:
    """Whether a sum shows that all are, in a fraction of the time; it may overflow."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum()))


def _sample_of(index: tuple[int, ...], array: np.ndarray, item: Argument) -> int:
    place = item.place
    return index[place.axis] // place.inner % place.count(array.shape) if place else 0


def note_of_balance(labels: np.ndarray, item: Argument, where: str) -> Iterator[str]:
    """What is to be said of how many samples each class has, where each has one class."""
    classes = item.classes
    if classes is None or len(item.spec.shape) != 1 or classes.count > _MOST_CLASSES:
        return
    of_classes = labels if classes.ignored is None else labels[labels != classes.ignored]
    counts = np.bincount(of_classes, minlength=classes.count)
    if of_classes.size < _LEAST:
        return
    if none := np.flatnonzero(counts == 0).tolist():
        numbers = listed([*map(str, none)])
        yield f"{where}: no sample is of class {numbers}: the model cannot learn it from these"
    largest = int(counts.argmax())
    share = counts[largest] / of_classes.size
    if share >= _MOST_SHARE:
        yield (
            f"{where}: {counts[largest]} of {of_classes.size} samples are of class {largest}: who "
            f"always says {largest} has an accuracy of {share:.0%}; the metric f1 counts all "
            "classes alike"
        )
