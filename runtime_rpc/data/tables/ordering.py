"""The columns of DataFrames that come one after the other, all in the order of the first."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from odtc.core.errors import DataError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.tables.frames import by_names

Columns = Mapping[str, Sequence[str]]


def are_turned(found: Columns, before: Columns) -> bool:
    """Whether the columns of inputs are those of before, and lie in another order."""
    names = found.keys() & before.keys()
    return any([*found[n]] != [*before[n]] for n in names) and all(
        sorted(found[n]) == sorted(before[n]) for n in names
    )


class Ordering:
    """Takes the columns of DataFrames by their names, batch after batch.

    Args:
        inputs: of the step.

    Attributes:
        names: of the columns of each input, in their order, as far as there were some.
    """

    def __init__(self, inputs: Sequence[Argument]) -> None:
        self._inputs = inputs
        self.names: dict[str, tuple[str, ...]] = {}
        self._told = set[str]()

    def __call__(
        self,
        feed: Any,
        known: Callable[[], Columns],
        before: Columns = MappingProxyType({}),
        measured: Columns = MappingProxyType({}),
    ) -> Any:
        """An input, or inputs by name, whose DataFrames have the columns in the order of all.

        What is no DataFrame stays as it is. Columns that are not taken are told of once.

        Args:
            feed: what is fed.
            known: the names of the columns of each input. Where it has none, those of the first
                DataFrame are taken.
            before: names in a run before, whose order the first DataFrame is taken in where it has
                the same.
            measured: names of what was read for a validation, before there was a DataFrame.

        Raises:
            DataError: as of `by_names`; a validation was read in another order.
        """
        trained = self.names or known()
        found = by_names(feed, self._inputs, trained)
        if not found.columns:
            return feed
        if not trained and are_turned(found.columns, before):
            found = by_names(feed, self._inputs, before)
        if not trained:
            _check_measured(found.columns, measured)
        self.names = {**self.names, **found.columns}
        for note in {*found.notes} - self._told:
            self._told.add(note)
            warn_caller(note)
        return found.feed


def _check_measured(found: Columns, measured: Columns) -> None:
    """Checks that a validation was read in the order that is trained.

    Raises:
        DataError: it was read in another, or has other columns.
    """
    for name in found.keys() & measured.keys():
        if [*found[name]] != [*measured[name]]:
            raise DataError(
                f"batches have the columns {listed(found[name])}, and the validation "
                f"{listed(measured[name])}: it was read before there was a batch",
                where="data",
                hint="give both the same columns in the same order, such as frame[NAMES]",
            )
