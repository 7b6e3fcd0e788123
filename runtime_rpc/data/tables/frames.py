"""The names of columns in DataFrames that are fed as they are: their places are what counts."""

from collections.abc import Mapping, Sequence
from typing import Any

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.runtime_rpc.feed.arrays import is_frame


def columns_in(feed: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of the columns of each input that is a DataFrame, in their order.

    Args:
        feed: an input, or inputs by name.
        names: of the inputs; what is no mapping is the only one.
    """
    feeds: Mapping[str, Any] = feed if isinstance(feed, Mapping) else {n: feed for n in names[:1]}
    return {
        name: tuple(map(str, value.columns)) for name, value in feeds.items() if is_frame(value)
    }


def check_columns(
    feed: Any, names: Sequence[str], trained: Mapping[str, Sequence[str]], where: str
) -> None:
    """Checks that DataFrames have their columns where they were in training.

    Args:
        feed: what is to be evaluated.
        names: of the inputs.
        trained: the names of the columns of each input that was trained; none where nobody knows.
        where: it is fed, for a message.

    Raises:
        DataError: the same columns lie in another order, or one of them is another.
    """
    for name, found in columns_in(feed, names).items():
        wanted = trained.get(name, ())
        # Of another number of columns the shape tells.
        if len(wanted) != len(found) or tuple(wanted) == found:
            continue
        number = next(
            n for n, pair in enumerate(zip(wanted, found, strict=True)) if len({*pair}) > 1
        )
        raise DataError(
            f"column {number} was {printable(wanted[number])} in training, and is "
            f"{printable(found[number])} here",
            where=where,
            hint="give the columns in the order in which they were trained: "
            f"frame[{[*map(printable, wanted)]}]"
            if {*wanted} == {*found}
            else "give the columns that were trained, in their order",
        )
