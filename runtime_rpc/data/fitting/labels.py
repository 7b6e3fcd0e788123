"""Labels of classes as class numbers: names, whole floats and truth values are numbered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import ToldSample, classes_text, listed, sample_of_all

_WORDS = "US"
# Beyond it, no number is one of a class.
_MOST_CLASS = 1 << 31
_NUMBERS = "number the classes from 0"


@dataclass(frozen=True)
class Labels:
    """Labels as a step takes them.

    Attributes:
        array: class numbers where the step takes these; else as they were.
        class_names: by their numbers, where the labels were names.
        note: what they were taken as; empty where that is what they were.
    """

    array: np.ndarray
    class_names: tuple[str, ...] = ()
    note: str = ""


def as_labels(
    array: np.ndarray,
    item: Argument,
    known: Sequence[str],
    where: str,
    told: ToldSample = sample_of_all,
) -> Labels:
    """The labels of samples.

    Names are numbered in their order, as folders of images are, or as `known` has them.

    Args:
        array: any labels.
        item: what the step takes.
        known: names of the classes by their numbers; none where nobody knows them.
        where: they come from, for messages.
        told: what a sample is called, by its number in the array.

    Raises:
        DataError: they are names, and the step takes none, has another number of classes, or knows
            other names; or they are numbers, and no class numbers; or some are missing.
    """
    name = printable(item.spec.name)
    if item.classes is not None:
        check_there(array, name, where, told)
    if are_words(array):
        return _numbered(array.astype(str), item, known, where)
    if item.classes is None:
        return Labels(array)
    if array.dtype.kind == "b":
        note = f"{where}: {name} holds truth values: false is class 0, true is class 1"
        return Labels(array.astype(np.int32), (), note)
    if array.dtype.kind == "f":
        # In float16 the bound itself is none.
        numbers = array.astype(np.float64)
        wrong = ~((np.abs(numbers) < _MOST_CLASS) & (numbers == np.rint(numbers)))
        if wrong.any():
            # Whether they are no class numbers, or shares of classes, their shape tells first.
            return Labels(array)
        note = f"{where}: {name} is {array.dtype}, of whole numbers: they are taken as classes"
        return Labels(array.astype(np.int64), (), note)
    return Labels(array)


def check_there(array: np.ndarray, name: str, where: str, told: ToldSample = sample_of_all) -> None:
    """Checks that no label of a class is missing: tables have None or NaN there.

    Raises:
        DataError: one is, among such that are class numbers or names.
    """
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype == object:
        missing = np.array([_is_missing(each) for each in array.flat], bool)
    else:
        return
    if not missing.any() or missing.all():
        return
    first = int(np.flatnonzero(missing)[0])
    raise DataError(
        f"{np.count_nonzero(missing)} of {missing.size} labels of {name} are missing, the first in "
        + told(first * len(array) // missing.size),
        where=where,
        hint="leave these samples out; or number the classes from 0, give missing labels the "
        "number -100, and compile with --loss 'cross-entropy{ignore-index=-100}'",
    )


def _is_missing(label: object) -> bool:
    is_of_pandas = type(label).__name__ in ("NAType", "NaTType")
    return label is None or is_of_pandas or (isinstance(label, float) and math.isnan(label))


def are_words(array: np.ndarray) -> bool:
    """Whether an array holds texts."""
    if array.dtype.kind in _WORDS:
        return True
    return array.dtype == object and array.size > 0 and all(isinstance(e, str) for e in array.flat)


def _numbered(words: np.ndarray, item: Argument, known: Sequence[str], where: str) -> Labels:
    label = printable(item.spec.name)
    names, numbers = np.unique(words, return_inverse=True)
    found = names.tolist()
    if item.classes is None:
        raise DataError(
            f"{label} holds texts, such as {printable(repr(found[0]))}; the loss compares with "
            "numbers",
            where=where,
            hint="give numbers; for names of classes compile with --loss cross-entropy",
        )
    if all(each.strip().lstrip("+-").isdecimal() for each in found):
        raise DataError(
            f"{label} holds numbers as texts, such as {printable(repr(found[0]))}",
            where=where,
            hint="store them as integers: y.astype(int)",
        )
    if not known and len(found) != item.classes.count:
        raise DataError(
            f"{label} has the names {listed(found)}, {len(found)} in all; the step has "
            f"{item.classes.count} classes",
            where=where,
            hint=f"provide samples of each class, or {_NUMBERS} yourself; `odtc adapt` makes a "
            "model for other classes",
        )
    classes = tuple(known) or tuple(found)
    unknown = [each for each in found if each not in classes]
    if unknown:
        raise DataError(
            f"{label} has {listed(unknown)}; the classes are {listed(classes)}",
            where=where,
            hint="give each class the name that it has where it is trained",
        )
    order = np.array([classes.index(each) for each in found], np.int32)
    note = "" if known else f"{where}: {classes_text(classes)}"
    return Labels(order[numbers].reshape(words.shape), classes, note)
