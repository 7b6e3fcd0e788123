"""Checks labels that are class numbers: one outside would be read past a row of scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from odtc.core.counted import Counted
from odtc.core.errors import DataError
from odtc.core.ir.place import Place
from odtc.core.printable import printable
from odtc.core.specs import Argument, Classes, TensorSpec
from odtc.runtime_rpc.data.names import ToldSample, sample_of_all

# What segmentations label pixels with that belong to no class.
_VOID = 255


def check_class_numbers(
    labels: np.ndarray,
    classes: Classes,
    spec: TensorSpec,
    place: Place | None,
    told: ToldSample = sample_of_all,
    *,
    is_inside: bool = False,
) -> None:
    """Checks labels before they are cast.

    Args:
        labels: class numbers of a step.
        classes: that there are.
        spec: of the labels.
        place: where the samples lie in them; along axis 0 where nothing shows it.
        told: what a sample is called, by its number in the labels.
        is_inside: whether a loss inside of the model reads them.

    Raises:
        DataError: they have an axis too many, are no integers, or one is outside the classes.
    """
    _check_rank(labels, classes, spec)
    if labels.dtype.kind in "US":
        raise DataError(
            f"labels are texts, such as {printable(repr(str(labels.flat[0])))}; they must be "
            "integers",
            where=spec.name,
            hint="number the classes from 0: {name: n for n, name in enumerate(sorted(NAMES))}; a "
            "file, or arrays of all samples, may have names",
        )
    if labels.dtype == object and (missing := [n for n, e in enumerate(labels.flat) if e is None]):
        raise DataError(
            f"{len(missing)} of {labels.size} labels are missing: None",
            where=f"{spec.name}, {told(_sample_of(labels, missing[0], place or Place(0)))}",
            hint="leave these samples out; or give missing labels the number -100, and compile "
            "with --loss 'cross-entropy{ignore-index=-100}'",
        )
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"labels are {labels.dtype}; they must be integers",
            where=spec.name,
            hint="number the classes from 0, and convert the labels to an integer dtype",
        )
    wrong = (labels < 0) | (labels >= classes.count)
    also = ""
    if classes.ignored is not None:
        wrong &= labels != classes.ignored
        also = f" and is not {classes.ignored}, which is ignored"
    if np.count_nonzero(wrong):
        first = int(np.flatnonzero(wrong)[0])
        sample = _sample_of(labels, first, place or Place(0))
        raise DataError(
            f"label {labels.flat[first]} is outside [0, {classes.count}){also}",
            where=f"{spec.name}, {told(sample)}",
            hint=f"the model has {classes.count} classes, counted from 0"
            + _how_to_ignore(int(labels.flat[first]), classes, is_inside=is_inside),
        )


def check_counted(fed: Mapping[Argument, np.ndarray], counted: Sequence[Counted]) -> None:
    """Checks the parts of what is fed that a loss inside of the model reads.

    One that is read as a whole was checked as that.

    Args:
        fed: to a step.
        counted: the parts.

    Raises:
        DataError: a number is outside of the classes, which the loss would leave out.
    """
    for each in counted:
        for item, array in fed.items():
            if item.spec.name == each.name and not item.classes and array.dtype.kind in "iu":
                part, place = each.of(array), item.place
                check_class_numbers(part, each.classes, item.spec, place, is_inside=True)


def _check_rank(labels: np.ndarray, classes: Classes, spec: TensorSpec) -> None:
    """Checks that labels have no axis too many: of size 1, or of the classes."""
    rank = len(spec.shape)
    if labels.ndim != rank + 1:
        return
    axis = next((n for n in (classes.axis, rank) if labels.shape[n : n + 1] == (1,)), None)
    hint = f"leave out axis {axis}, of size 1: labels.squeeze({axis})"
    if axis is None:
        hint = (
            f"feed class numbers: labels.argmax({classes.axis}); for class probabilities "
            "compile with --loss 'cross-entropy{soft-labels=true}'"
        )
    raise DataError(
        f"{printable(spec.name)} has shape {list(labels.shape)}; the step takes {list(spec.shape)}",
        where=spec.name,
        hint=hint,
    )


def _how_to_ignore(label: int, classes: Classes, *, is_inside: bool) -> str:
    """A hint for a label that people use to leave a sample out of the loss."""
    if label >= 0 and label != _VOID:
        return ""
    instead = f" instead of {classes.ignored}" if classes.ignored is not None else ""
    # An option would put another loss in the place of the model's own.
    how = (
        f"export the model with ignore_index={label} in its loss"
        if is_inside
        else f"compile with --loss 'cross-entropy{{ignore-index={label}}}'"
    )
    return f"; to ignore the label {label}{instead}, {how}"


def _sample_of(array: np.ndarray, element: int, place: Place) -> int:
    """The sample that an element belongs to, by its number in the flat array."""
    if not place.fits(array.shape):
        return 0
    index = int(np.unravel_index(element, array.shape)[place.axis])
    return index // place.inner % place.count(array.shape)
