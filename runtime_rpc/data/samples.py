"""Samples that lie in arrays."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from odtc.core.errors import DataError
from odtc.core.ir.place import Place, take
from odtc.core.printable import printable
from odtc.core.specs import Argument, TensorSpec, batch_of
from odtc.runtime_rpc.data.mapped import let_go
from odtc.runtime_rpc.data.source import Arrays, Batch, Source
from odtc.runtime_rpc.feed.batches import count_samples, fitted_argument

LABELS = ("y", "label", "labels", "target")
"""What the only label may be called beside its own name, in tables and in datasets."""
_SHOWN = 20
# Bytes of an array that are hashed at a time.
_PIECE = 16 << 20

# Of a batch without images: samples, and what each holds.
_AXES = 2


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
        is_text: see `Source`.
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
    is_text: bool = False

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

    def _taken(self, arrays: Mapping[str, np.ndarray], numbers: np.ndarray) -> Arrays:
        return {
            name: array if (place := self.places[name]) is None else take(array, place, numbers)
            for name, array in arrays.items()
        }

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


def listed(names: Sequence[str]) -> str:
    """The first of many names, in one line."""
    more = len(names) - _SHOWN
    return ", ".join(map(printable, names[:_SHOWN])) + (f", and {more} more" if more > 0 else "")


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
    inputs: Sequence[Argument],
    labels: Sequence[Argument],
    where: str,
) -> Samples:
    """The samples in arrays.

    Args:
        arrays: by name, or as `x` and `y`.
        names: of all that there are, those that were not read too.
        inputs: of the step.
        labels: of the step.
        where: they come from, for messages.

    Raises:
        DataError: an array is missing, or one does not fit.
    """
    of_inputs, of_labels = _keys(inputs, "x", arrays), _keys(labels, "y", arrays)
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
    found = {name: arrays[key] for name, key in keys.items()}
    items = (*inputs, *labels)
    cut = {item: found[item.spec.name] for item in items if item.place}
    count = count_samples(cut, where) or 1
    for item in inputs:
        _check_samples(found[item.spec.name], item, count, where)
    _check_whole(labels, count, batch_of(inputs), where)
    return Samples(
        {item.spec.name: found[item.spec.name] for item in inputs},
        {item.spec.name: _fitted(found[item.spec.name], item, count) for item in labels},
        {item.spec.name: item.place for item in items},
        count,
        where,
        tuple(name for name in names if name not in arrays),
        notes=tuple(
            f"{where}: {printable(item.spec.name)} holds bytes, 0 to 255, which are fed as they "
            "are: where the model does not scale them, divide them by 255, or compile it with "
            "--normalize"
            for item in inputs
            if _are_pixels(found[item.spec.name], item)
        ),
    )


def _are_pixels(array: np.ndarray, item: Argument) -> bool:
    """Whether bytes go into an input of floats with several axes in each sample."""
    is_float = item.spec.dtype.startswith("float")
    return array.dtype == np.uint8 and is_float and len(item.spec.shape) > _AXES


def keys_of(
    inputs: Sequence[Argument], labels: Sequence[Argument], names: Collection[str]
) -> set[str]:
    """The names of those arrays that are inputs or labels."""
    keys = _keys(inputs, "x", names) | _keys(labels, "y", names)
    return {*keys.values()}


def _keys(items: Sequence[Argument], short: str, arrays: Collection[str]) -> dict[str, str]:
    """The key of each argument's array: its name, or the short one where it is the only one."""
    names = [item.spec.name for item in items]
    return {name: short if name not in arrays and len(names) == 1 else name for name in names}


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
            along = f"of {samples} samples along axis {item.place.axis}"
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
