"""Whether what is measured goes with what is trained: other samples, of the same classes."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.runtime_rpc.data.names import classes_text
from odtc.runtime_rpc.data.source import Named

_PAIR = 2
# Of views with several odd strides it may take for ever to find out.
_MOST_WORK = 10_000


def notes_beside(trained: Named, other: Named, given: tuple[Any, Any]) -> Iterator[str]:
    """Yields what is to be said of samples that are measured beside those that are trained.

    Args:
        trained: the samples that are trained.
        other: those that are measured.
        given: what a caller gave for both: paths, objects, or arrays.

    Raises:
        DataError: as of `check_same_classes`.
    """
    check_same_classes(trained, other)
    is_same = given[0] is given[1] or _is_same_file(*given)
    if is_same or _shares_samples(*given):
        what = "what" if is_same else "some of what"
        yield (
            f"{what} is measured is what is trained, too: it does not tell how well the model does "
            "on samples that it has not seen"
        )
    if trained.class_names and not other.class_names:
        yield (
            f"{other.where}: labels that are measured are numbers, and those that are trained "
            f"names: {classes_text(trained.class_names)}"
        )


def _is_same_file(one: Any, other: Any) -> bool:
    if not isinstance(one, str | os.PathLike) or not isinstance(other, str | os.PathLike):
        return False
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _shares_samples(one: Any, other: Any) -> bool:
    """Whether inputs lie in the same memory, as those of x[:100] and x[50:] do."""
    pairs = zip(_inputs_of(one), _inputs_of(other), strict=False)
    try:
        # NumPy's types know two of the numbers that it takes.
        shares = partial(np.shares_memory, max_work=_MOST_WORK)  # pyright: ignore[reportArgumentType]
        return any(shares(mine, its) for mine, its in pairs)
    except np.exceptions.TooHardError:
        return False


def _inputs_of(data: Any) -> list[np.ndarray]:
    """Arrays of the inputs of a pair; none of what is no pair of arrays."""
    if not isinstance(data, tuple) or len(data) != _PAIR:
        return []
    inputs = data[0].values() if isinstance(data[0], Mapping) else [data[0]]
    return [each for each in inputs if isinstance(each, np.ndarray) and each.size]


def check_same_classes(trained: Named, other: Named) -> None:
    """Checks that each class has the same number in both; columns are taken by their names.

    Raises:
        DataError: one has another: all that is measured on the other samples would be of others.
    """
    # Where one has fewer, those that it has are compared: their numbers are the same.
    pairs = enumerate(zip(trained.class_names, other.class_names, strict=False))
    number, names = next(((n, pair) for n, pair in pairs if pair[0] != pair[1]), (0, None))
    if names:
        mine, its = map(printable, names)
        raise DataError(
            f"class {number} is {mine} in {trained.where}, and {its} here",
            where=other.where,
            hint="give both the same classes in the same order: folders are numbered in the order "
            "of their names, and one may be empty",
        )
