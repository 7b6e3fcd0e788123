"""Datasets whose samples differ in length, for a step that was compiled for several.

Rows of a batch are filled up to the longest of them. Their lengths are read once, before the first
step: batches of training then have samples that the step takes at one length, but for the few that
are left of each. Which ones follows from the seed and the number of the epoch, as of any source.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import join
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.ahead import ahead
from odtc.runtime_rpc.data.by_length import by_length, note_of_lengths
from odtc.runtime_rpc.data.objects.indexed import Indexed
from odtc.runtime_rpc.data.source import Arrays
from odtc.runtime_rpc.lengths.joining import Joining
from odtc.runtime_rpc.lengths.rows import NO_LABEL, NOT_EXACT, Rows


@dataclass(frozen=True)
class Ragged(Indexed):
    """A dataset whose samples may differ in length.

    Attributes:
        joining: fills rows up to one length.
        batch: samples of a step.
        lengths: at which the step would take each sample; none where nothing is trained on them.
    """

    joining: Joining | None = None
    batch: int = 1
    lengths: tuple[int, ...] = ()

    def stacked(
        self, items: Sequence[Mapping[str, object]], arguments: Sequence[Argument]
    ) -> Arrays:
        """See `Indexed.stacked`."""
        assert self.joining
        return self.joining([super(Ragged, self).stacked([item], arguments) for item in items])

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """See `Source.order`: batches of one length, in an order that is drawn."""
        order = super().order(seed, epoch)
        if not self.lengths:
            return order
        return by_length(order, np.array(self.lengths), self.batch, seed, epoch)


def ragged(
    source: Indexed, manifest: Manifest, can_fill: Callable[[], bool], *, is_trained: bool
) -> Indexed:
    """A dataset for a step of several lengths; the same one where the step has one size.

    Args:
        source: the dataset.
        manifest: of the step.
        can_fill: whether what fills rows up changes nothing before it.
        is_trained: whether it is trained on, and not measured.

    Raises:
        DataError: samples are longer than the step; or they differ in length, and cannot be filled
            up.
    """
    if not manifest.shorter:
        return source
    rows = Rows(manifest)
    joining = Joining(manifest, can_fill, source.where)
    known = {each.name: getattr(source, each.name) for each in fields(source)}
    found = Ragged(**known, joining=joining, batch=manifest.batch)
    # Asked here: batches are made on threads of their own, which must not evaluate.
    why = NO_LABEL if not rows.can_fill else "" if can_fill() else NOT_EXACT
    if not is_trained:
        return found
    widths, lengths = [], []
    for x, y in ahead(found.take, (np.array([number]) for number in range(source.count))):
        arrays = x | y
        widths.append(rows.width(arrays))
        lengths.append(_length(rows, arrays, widths[-1], why))
    if why and len({*widths}) > 1:
        raise _not_alike(source, rows, widths, why)
    note = note_of_lengths(source.where, np.array(lengths))
    return replace(found, notes=(*source.notes, note), lengths=(*lengths,)) if note else found


@dataclass(frozen=True)
class Filled(Indexed):
    """A dataset that is predicted, whose samples are all filled up to the longest of them.

    Attributes:
        rows: of the step.
        width: places of the longest.
    """

    rows: Rows | None = None
    width: int = 0

    def stacked(
        self, items: Sequence[Mapping[str, object]], arguments: Sequence[Argument]
    ) -> Arrays:
        """See `Indexed.stacked`."""
        assert self.rows
        alone = super()
        full = [self.rows.fit(alone.stacked([item], arguments), self.width) for item in items]
        return {
            each.spec.name: join([one[each.spec.name] for one in full], each.place)
            if each.place
            else full[0][each.spec.name]
            for each in arguments
        }


def predicted_rows(source: Indexed, manifest: Manifest, is_exact: Callable[[], bool]) -> Indexed:
    """A dataset whose outputs are one array, by a step of several lengths.

    Args:
        source: the dataset, of inputs alone.
        manifest: of the step.
        is_exact: whether what fills rows up changes nothing before it.

    Raises:
        DataError: samples differ in length, and cannot be filled up.
    """
    if not manifest.shorter:
        return source
    rows = Rows(manifest)
    each = (np.array([number]) for number in range(source.count))
    widths = [rows.width(x) for x, _ in ahead(source.take, each)]
    if len({*widths}) < 2:
        return source
    if not is_exact():
        raise _not_alike(source, rows, widths, NOT_EXACT)
    note = (
        f"{source.where}: rows have {min(widths)} to {max(widths)} places, and are filled up to "
        f"{max(widths)}: what an output has behind the last place of a sample is of no sample"
    )
    known = {each.name: getattr(source, each.name) for each in fields(source)}
    known["notes"] = (*source.notes, note)
    return Filled(**known, rows=rows, width=max(widths))


def _length(rows: Rows, arrays: Arrays, width: int, why: str) -> int:
    """The length at which the step takes a sample.

    Raises:
        DataError: there is none.
    """
    return rows.exactly(width, why) if why else rows.shortest(rows.used(arrays))


def _not_alike(source: Indexed, rows: Rows, widths: Sequence[int], why: str) -> DataError:
    found = ", ".join(map(str, sorted({*widths})))
    return DataError(
        f"samples have rows of {found} places, and cannot be filled up to one length: {why}",
        where=source.where,
        hint="give a DataLoader whose batches are of one length each: "
        f"{', '.join(map(str, rows.lengths))}",
    )
