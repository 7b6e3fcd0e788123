"""Whether what is measured goes with what is trained: other samples, of the same classes."""

import os
from typing import Any

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.runtime_rpc.data.source import Named


def note_of_same(trained: Any, other: Any) -> str:
    """What is to be said where what is trained is measured, too; empty for others.

    Args:
        trained: what a caller gives to be trained: a path, or an object.
        other: what is given to be measured.
    """
    if trained is not other and not _is_same_file(trained, other):
        return ""
    return (
        "what is measured is what is trained, too: it does not tell how well the model does on "
        "samples that it has not seen"
    )


def _is_same_file(one: Any, other: Any) -> bool:
    if not isinstance(one, str | os.PathLike) or not isinstance(other, str | os.PathLike):
        return False
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def check_same_names(trained: Named, other: Named) -> None:
    """Checks that each class and each column has the same number in both.

    Raises:
        DataError: one has another: all that is measured on the other samples would be of others.
    """
    _check_same(
        (trained.class_names, other.class_names),
        *("class", (trained.where, other.where)),
        "give both the same classes in the same order: folders are numbered in the order of their "
        "names, and one may be empty",
    )
    for name in trained.column_names.keys() & other.column_names.keys():
        _check_same(
            (trained.column_names[name], other.column_names[name]),
            *("column", (trained.where, other.where)),
            "give both the same columns in the same order: they are the input's numbers in their "
            "order",
        )


def _check_same(
    both: tuple[tuple[str, ...], tuple[str, ...]], what: str, where: tuple[str, str], hint: str
) -> None:
    # Where one has fewer, those that it has are compared: their numbers are the same.
    pairs = enumerate(zip(*both, strict=False))
    number, names = next(((n, pair) for n, pair in pairs if pair[0] != pair[1]), (0, None))
    if names:
        mine, its = map(printable, names)
        raise DataError(
            f"{what} {number} is {mine} in {where[0]}, and {its} here", where=where[1], hint=hint
        )
