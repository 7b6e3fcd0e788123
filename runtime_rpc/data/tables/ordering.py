"""The columns of DataFrames that come one after the other, all in the order of the first."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from odtc.core.errors import DataError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.tables.frames import by_names, note_of_rows

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
        is_one_run: whether batches are of the same data, where an array among DataFrames has
            columns that nothing tells; it is told of, and not refused, where they are not.

    Attributes:
        names: of the columns of each input, in their order, as far as there were some.
    """

    def __init__(self, inputs: Sequence[Argument], *, is_one_run: bool = True) -> None:
        self._inputs, self._is_one_run = inputs, is_one_run
        # Inputs that were fed without names.
        self._unnamed = set[str]()
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
            DataError: as of `by_names`; a validation was read in another order; some batches are
                DataFrames, and others arrays.
        """
        trained = self.names or known()
        found = by_names(feed, self._inputs, trained)
        self._note_unnamed(feed, found.columns)
        if not found.columns:
            return feed
        if not trained and are_turned(found.columns, before):
            found = by_names(feed, self._inputs, before)
        if not trained:
            _check_measured(found.columns, measured)
        self.names = {**self.names, **found.columns}
        self._check_named()
        for note in found.notes:
            self._tell(note)
        return found.feed

    def look_at_rows(self, x: Any, y: Any) -> None:
        """Tells once where rows that are fed together have names in another order."""
        for note in note_of_rows(x, y):
            self._tell(note)

    def _note_unnamed(self, feed: Any, columns: Columns) -> None:
        fed = [*feed] if isinstance(feed, Mapping) else [i.spec.name for i in self._inputs[:1]]
        self._unnamed |= {*fed} - columns.keys()
        self._check_named()

    def _check_named(self) -> None:
        """Checks that the columns of an input have names in all batches, or in none.

        Raises:
            DataError: they have not, and all batches are of the same data.
        """
        both = self._unnamed & self.names.keys()
        if not both:
            return
        name = min(both)
        said = (
            f"some batches of {printable(name)} are DataFrames, with the columns "
            f"{listed(self.names[name])}, and others have no names"
        )
        if self._is_one_run:
            raise DataError(
                f"{said}, so their columns cannot be matched",
                where="data",
                hint="give all batches as DataFrames, or all as arrays: frame[NAMES].to_numpy()",
            )
        self._tell(f"{said}: their columns are taken by their places")

    def _tell(self, note: str) -> None:
        if note not in self._told:
            self._told.add(note)
            warn_caller(note)


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
