"""Samples from an `.npz` file, and the batches that a training run takes of them."""

import os
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from odtc.cli.console import say
from odtc.core.artifact.archive import small_directory
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.file_limits import MOST_ARRAYS_BYTES
from odtc.core.disk.files import not_a_file
from odtc.core.errors import DataError
from odtc.core.ir.place import Place, take
from odtc.core.printable import printable
from odtc.core.specs import Argument, Role, TensorSpec, batch_of
from odtc.runtime_rpc.feed.batches import count_samples, fitted_argument

Arrays = dict[str, np.ndarray]
Batch = tuple[Arrays, Arrays]
_SHOWN = 20

_HINT = "save it with numpy.savez: an array for each input, and the labels as y"


@dataclass(frozen=True)
class Samples:
    """Inputs and labels of as many samples.

    Attributes:
        inputs: array by input name.
        labels: array by label name; none where the inputs hold the labels.
        places: where the samples lie in each; None where it is one for all of them.
        count: how many there are.
        others: names of arrays of the file that are neither, and were not read.
    """

    inputs: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]
    places: Mapping[str, Place | None]
    count: int
    others: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.count

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The numbers of the samples in the order of an epoch.

        It is that of the file where a label holds no entry for each sample: it is one of them all.
        """
        if any(self.places[name] is None for name in self.labels):
            return np.arange(self.count)
        return np.random.default_rng([seed, epoch]).permutation(self.count)


def read_samples(path: Path, manifest: Manifest) -> Samples:
    """Reads inputs, by name or as `x`, and labels, by name or as `y`, where there is one of them.

    A note names other arrays: a file may serve several models.

    Raises:
        DataError: the file is missing or no `.npz`, an array is missing, or one does not fit.
    """
    samples = samples_of(path, manifest.of_role(Role.INPUT), manifest.labels)
    # Inputs whose values are constants of the step may be there.
    unknown = [name for name in samples.others if name not in manifest.bound]
    if unknown:
        say(
            f"note: {path}: not read, as they are no input and no label: {_listed(unknown)}; the "
            f"step takes {_listed((*samples.inputs, *samples.labels))}"
        )
    return samples


def _listed(names: Sequence[str]) -> str:
    """The first of many names, in one line."""
    more = len(names) - _SHOWN
    return ", ".join(map(printable, names[:_SHOWN])) + (f", and {more} more" if more > 0 else "")


def samples_of(path: Path, inputs: Sequence[Argument], labels: Sequence[Argument]) -> Samples:
    """The same for arguments of a step that is not compiled; see `read_samples` for errors."""
    arrays, names = _read_arrays(path, inputs, labels)
    of_inputs, of_labels = _keys(inputs, "x", arrays), _keys(labels, "y", arrays)
    _check_apart(of_inputs, of_labels, str(path))
    keys = of_inputs | of_labels
    missing = [
        name if key == name else f"{name} (or {key})"
        for name, key in keys.items()
        if key not in arrays
    ]
    if missing:
        raise DataError(
            f"the data has no array {_listed(missing)}",
            where=str(path),
            hint=f"it has {_listed(names) or 'none'}",
        )
    found = {name: arrays[key] for name, key in keys.items()}
    items = (*inputs, *labels)
    cut = {item: found[item.spec.name] for item in items if item.place}
    count = count_samples(cut, str(path)) or 1
    for item in inputs:
        _check_samples(found[item.spec.name], item, count, str(path))
    _check_whole(labels, count, batch_of(inputs), str(path))
    return Samples(
        {item.spec.name: found[item.spec.name] for item in inputs},
        {item.spec.name: _fitted(found[item.spec.name], item, count) for item in labels},
        {item.spec.name: item.place for item in items},
        count,
        tuple(name for name in names if name not in arrays),
    )


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


def steps_per_epoch(samples: Samples, batch: int, where: Path) -> int:
    """Whole batches in the samples.

    Raises:
        DataError: there is none.
    """
    if len(samples) < batch:
        raise DataError(
            f"the data holds {len(samples)} samples; a step takes {batch}",
            where=str(where),
            hint=f"bring more, or compile with a --batch of at most {len(samples)}",
        )
    return len(samples) // batch


def batches(samples: Samples, batch: int, seed: int, start: int) -> Iterator[Batch]:
    """The batches of all steps from `start` on, without end.

    The order of an epoch depends on the seed and its number only, so that a run that is taken up
    again sees what it would have seen.
    """
    per_epoch = len(samples) // batch
    while True:
        epoch, first = divmod(start, per_epoch)
        order = samples.order(seed, epoch)
        for index in range(first, per_epoch):
            chosen = order[index * batch : (index + 1) * batch]
            yield (_taken(samples, samples.inputs, chosen), _taken(samples, samples.labels, chosen))
        start += per_epoch - first


def _taken(samples: Samples, arrays: Mapping[str, np.ndarray], chosen: np.ndarray) -> Arrays:
    """Some samples of arrays; what is one for all of them as it is."""
    places = samples.places
    return {
        name: array if (place := places[name]) is None else take(array, place, chosen)
        for name, array in arrays.items()
    }


def _read_arrays(
    path: Path, inputs: Sequence[Argument], labels: Sequence[Argument]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays that are inputs or labels, and the names of all.

    Raises:
        DataError: the file is missing or no `.npz`.
    """
    if not os.path.isfile(path):
        raise DataError(f"the data file {not_a_file(path)}", where=str(path), hint="check the path")
    if error := mistaken(path, "file of arrays", DataError):
        raise error
    if not zipfile.is_zipfile(path):
        raise DataError("not an .npz file", where=str(path), hint=_HINT)
    try:
        with (
            small_directory(path, MOST_ARRAYS_BYTES) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            file.opened()
            names = archive.files
            keys = _keys(inputs, "x", names) | _keys(labels, "y", names)
            arrays = {name: archive[name] for name in names if name in keys.values()}
    except (
        *(zipfile.BadZipFile, zlib.error),
        *(AttributeError, EOFError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    ) as error:
        raise DataError(
            f"not a readable .npz file ({error})", where=str(path), hint=_HINT
        ) from error
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}, names


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


def drawn(manifest: Manifest) -> Iterator[Batch]:
    """The same batch for ever: see `draw_arguments`."""
    batch = draw_arguments(manifest.fed(Role.INPUT), manifest.fed(Role.LABEL))
    while True:
        yield batch


def draw_arguments(inputs: Sequence[Argument], labels: Sequence[Argument]) -> Batch:
    """One batch: normal numbers, the first of all indices, and classes."""
    random = np.random.default_rng(0)
    x = {
        item.spec.name: random.standard_normal(item.spec.shape).astype(item.spec.dtype)
        if np.issubdtype(item.spec.dtype, np.floating)
        else np.zeros(item.spec.shape, item.spec.dtype)
        for item in inputs
    }
    y = {
        item.spec.name: random.integers(item.classes.count, size=item.spec.shape)
        if item.classes
        else random.random(item.spec.shape).astype(item.spec.dtype)
        for item in labels
    }
    return x, y
