"""Samples that lie in arrays."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from odtc.core.errors import DataError
from odtc.core.ir.place import Place, take
from odtc.core.printable import printable
from odtc.core.specs import Argument, TensorSpec, batch_of
from odtc.runtime_rpc.data.by_length import by_length
from odtc.runtime_rpc.data.fitting.labels import as_labels
from odtc.runtime_rpc.data.fitting.said import note_of_balance, note_of_numbers, notes_of_input
from odtc.runtime_rpc.data.fitting.shapes import note_of_shape, with_axes_of_one
from odtc.runtime_rpc.data.fitting.taking import Taking
from odtc.runtime_rpc.data.mapped import is_mapped, let_go
from odtc.runtime_rpc.data.names import LABELS, listed, sample_among
from odtc.runtime_rpc.data.source import Arrays, Batch, Source
from odtc.runtime_rpc.data.wanted import Wanted
from odtc.runtime_rpc.feed.batches import count_samples, fitted_argument

# Bytes of an array that are hashed at a time.
_PIECE = 16 << 20


@dataclass(frozen=True)
class Samples(Source):
    """Inputs and labels of as many samples.

    Attributes:
        inputs: array by input name.
        labels: array by label name; none where the inputs hold the labels.
        places: where the samples lie in each; None where it is one for all of them.
        count: how many there are.
        where: they come from.
        others: names of arrays of the file that are neither, and were not read.
        class_names: see `Named`.
        column_names: see `Named`.
        notes: what is to be said of them.
        notes_of_training: see `Source`.
        is_text: see `Source`.
        no_training: see `Source`.
        looking: at what is taken of arrays that stay in their file.
        lengths: at which a step takes each sample; None where all batches take the same time.
        batch: samples of a step, where there are lengths.
    """

    inputs: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]
    places: Mapping[str, Place | None]
    count: int
    where: str = "data"
    others: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    column_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    notes_of_training: tuple[str, ...] = ()
    is_text: bool = False
    no_training: DataError | None = None
    looking: Taking | None = None
    lengths: np.ndarray | None = None
    batch: int = 1

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """See `Source.order`."""
        order = super().order(seed, epoch)
        if self.lengths is None:
            return order
        return by_length(order, self.lengths, self.batch, seed, epoch)

    @property
    def in_file_order(self) -> bool:
        """Whether a label holds no entry for each sample: it is one of them all."""
        return any(self.places[name] is None for name in self.labels)

    @property
    def is_fixed(self) -> bool:
        """See `Source.is_fixed`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`; what is one for all samples comes as it is."""
        batch = self._taken(self.inputs, numbers), self._taken(self.labels, numbers)
        for array in (*self.inputs.values(), *self.labels.values()):
            let_go(array)
        return batch

    def untold(self) -> Iterable[str]:
        """See `Source.untold`."""
        return self.looking.untold() if self.looking else ()

    def _taken(self, arrays: Mapping[str, np.ndarray], numbers: np.ndarray) -> Arrays:
        found = {
            name: array if (place := self.places[name]) is None else take(array, place, numbers)
            for name, array in arrays.items()
        }
        for name, array in found.items():
            if self.looking and is_mapped(arrays[name]):
                self.looking.look(array, name, sample_among(numbers.tolist()))
        return found

    def digest(self) -> str:
        """Of all arrays with their names, shapes and dtypes: the same, however they are stored."""
        digest = hashlib.sha256()
        for kind, arrays in (("input", self.inputs), ("label", self.labels)):
            for name in sorted(arrays):
                array = arrays[name]
                digest.update(f"{kind} {name!r} {array.dtype.str} {array.shape}\n".encode())
                for part in _pieces(array):
                    digest.update(part)
                    let_go(array)
        return digest.hexdigest()[:32]


def _pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array in C order, so many at a time."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _PIECE):
        yield flat[start : start + _PIECE].data


def samples_in(
    arrays: Mapping[str, np.ndarray],
    names: Sequence[str],
    wanted: Wanted,
    where: str,
) -> Samples:
    """The samples in arrays.

    Args:
        arrays: by name, or as `x` and `y`.
        names: of all that there are, those that were not read too.
        wanted: what the step takes.
        where: they come from, for messages.

    Raises:
        DataError: an array is missing, or one does not fit.
    """
    inputs, labels = wanted.inputs, wanted.read_labels
    of_inputs, of_labels = _keys_apart(inputs, labels, arrays)
    _check_apart(of_inputs, of_labels, where)
    keys = of_inputs | of_labels
    missing = [
        name if key == name else f"{name} (or {key})"
        for name, key in keys.items()
        if key not in arrays
    ]
    if missing:
        raise DataError(
            f"the data has no array {listed(missing)}",
            where=where,
            hint=f"it has {listed(names) or 'none'}",
        )
    notes: list[str] = []
    found = {name: arrays[key] for name, key in keys.items()}
    read = {
        item.spec.name: as_labels(found[item.spec.name], item, wanted.class_names, where)
        for item in labels
    }
    notes += [each.note for each in read.values() if each.note]
    found |= {name: each.array for name, each in read.items()}
    for item in (*inputs, *labels):
        found[item.spec.name] = _shaped(found[item.spec.name], item, where, notes)
    if wanted.rows:
        found, at = wanted.rows.of_samples(found, inputs_alone=wanted.inputs_alone)
        inputs, labels = ([at.get(i.spec.name, i) for i in each] for each in (inputs, labels))
    items = (*inputs, *labels)
    cut = {item: found[item.spec.name] for item in items if item.place}
    count = count_samples(cut, where) or 1
    for item in inputs:
        _check_samples(found[item.spec.name], item, count, where)
    _check_whole(labels, count, batch_of(inputs), where)
    fitted = {item.spec.name: _fitted(found[item.spec.name], item, count) for item in labels}
    for item in inputs:
        array, alone = found[item.spec.name], wanted.inputs_alone
        notes += notes_of_input(array, item, where, is_predicted=alone)
    for item in labels:
        notes += note_of_numbers(fitted[item.spec.name], item, where)
    return Samples(
        {item.spec.name: found[item.spec.name] for item in inputs},
        fitted,
        {item.spec.name: item.place for item in items},
        count,
        where,
        tuple(name for name in names if name not in arrays),
        class_names=next((each.class_names for each in read.values() if each.class_names), ()),
        notes=tuple(notes),
        looking=Taking(items, where, is_predicted=wanted.inputs_alone),
        notes_of_training=tuple(
            note for item in labels for note in note_of_balance(fitted[item.spec.name], item, where)
        ),
    )


def _shaped(array: np.ndarray, item: Argument, where: str, notes: list[str]) -> np.ndarray:
    """The array with the axes of size 1 that the step takes, which is noted."""
    shaped = with_axes_of_one(array, item)
    if shaped.shape != array.shape:
        notes.append(note_of_shape(where, printable(item.spec.name), array.shape, shaped.shape))
    return shaped


def keys_of(
    inputs: Sequence[Argument], labels: Sequence[Argument], names: Collection[str]
) -> set[str]:
    """The names of those arrays that are inputs or labels."""
    of_inputs, of_labels = _keys_apart(inputs, labels, names)
    return {*of_inputs.values(), *of_labels.values()}


def _keys_apart(
    inputs: Sequence[Argument], labels: Sequence[Argument], names: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The keys of inputs and of labels; what an input is called is no label for that."""
    theirs = {item.spec.name for item in inputs}
    free = [name for name in names if name not in theirs]
    return _keys(inputs, names, ["x"], names), _keys(labels, names, LABELS, free)


def _keys(
    items: Sequence[Argument], names: Collection[str], usual: Sequence[str], free: Collection[str]
) -> dict[str, str]:
    """The key of each argument's array: its name, or the usual one where it is the only one."""
    own = [item.spec.name for item in items]
    if len(own) != 1 or own[0] in names:
        return {name: name for name in own}
    found = [name for name in usual if name in free]
    return {own[0]: found[0] if len(found) == 1 else usual[0]}


def _check_apart(inputs: Mapping[str, str], labels: Mapping[str, str], where: str) -> None:
    """Checks that no array would be both an input and a label.

    Raises:
        DataError: one would: an input that is called `y`, whose labels have no name of their own.
    """
    for name, key in labels.items():
        fed = next((other for other, its in inputs.items() if its == key), None)
        if fed is not None:
            raise DataError(
                f"the array {key} would be both the input {fed} and the label {name}",
                where=where,
                hint=f"give the label's array its own name, {name}",
            )


def _fitted(labels: np.ndarray, item: Argument, samples: int) -> np.ndarray:
    """All labels at once, so that a wrong one is found before the first step."""
    return fitted_argument(labels, replace(item, spec=_spec_of(item, samples)))


def _spec_of(item: Argument, samples: int) -> TensorSpec:
    """The spec of an argument of so many samples."""
    if item.place is None:
        return item.spec
    return replace(item.spec, shape=item.place.shape_of(item.spec.shape, samples))


def _check_samples(array: np.ndarray, item: Argument, samples: int, where: str) -> None:
    wanted = _spec_of(item, samples)
    if array.shape != wanted.shape:
        along = "the same for all samples"
        if item.place:
            along = f"with {samples} samples along axis {item.place.axis}"
        raise DataError(
            f"{printable(item.spec.name)} has shape {list(array.shape)}; "
            f"the step takes {list(wanted.shape)}, {along}",
            where=where,
            hint="reshape the array, or compile with --batch-axis NAME=AXIS if the samples lie "
            "elsewhere",
        )


def _check_whole(labels: Sequence[Argument], samples: int, batch: int, where: str) -> None:
    """Checks that a label of a whole batch goes with all samples that there are.

    Raises:
        DataError: there are more, and nothing shows which of them it is of.
    """
    whole = next((item for item in labels if item.place is None), None)
    if whole is not None and samples != batch:
        raise DataError(
            f"nothing shows where the samples lie in {whole.spec}, so it is of one batch of "
            f"{batch}; the data holds {samples} samples",
            where=where,
            hint="bring one batch; or compile with --batch-axis OUTPUT=0, of the output that it is "
            "compared with, if the samples lie along axis 0 there",
        )
