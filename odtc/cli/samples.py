"""Samples from an `.npz` file, and the batches that a training run takes of them."""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from odtc.core.errors import DataError
from odtc.core.manifest import Manifest
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.runtime_rpc.batches import fitted_argument

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]

_HINT = "save it with numpy.savez: an array for each input, and the labels as y"


@dataclass(frozen=True)
class Samples:
    """Inputs and labels of the same length.

    Attributes:
        inputs: array by input name, samples first.
        labels: array by label name, samples first; none where the inputs hold the labels.
    """

    inputs: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))


def read_samples(path: Path, manifest: Manifest) -> Samples:
    """Reads inputs, by name or as `x`, and labels, by name or as `y`, where there is one of them.

    Raises:
        DataError: the file is missing or no `.npz`, an array is missing, or one does not fit.
    """
    return samples_of(path, manifest.of_role(Role.INPUT), manifest.labels)


def samples_of(path: Path, inputs: Sequence[Argument], labels: Sequence[Argument]) -> Samples:
    """The same for arguments of a step that is not compiled; see `read_samples` for errors."""
    arrays = _read_arrays(path)
    keys = _keys(inputs, "x", arrays) | _keys(labels, "y", arrays)
    missing = [
        name if key == name else f"{name} (or {key})"
        for name, key in keys.items()
        if key not in arrays
    ]
    if missing:
        raise DataError(
            f"the data has no array {', '.join(missing)}",
            where=str(path),
            hint=f"it has {', '.join(arrays) or 'none'}",
        )
    found = {name: arrays[key] for name, key in keys.items()}
    _check_lengths(found, str(path))
    for item in inputs:
        _check_samples(found[item.spec.name], item.spec, str(path))
    return Samples(
        {item.spec.name: found[item.spec.name] for item in inputs},
        {item.spec.name: _fitted(found[item.spec.name], item) for item in labels},
    )


def _keys(items: Sequence[Argument], short: str, arrays: Mapping[str, object]) -> dict[str, str]:
    """The key of each argument's array: its name, or the short one where it is the only one."""
    names = [item.spec.name for item in items]
    return {name: short if name not in arrays and len(names) == 1 else name for name in names}


def _fitted(labels: np.ndarray, item: Argument) -> np.ndarray:
    """All labels at once, so that a wrong one is found before the first step."""
    spec = replace(item.spec, shape=(len(labels), *item.spec.shape[1:]))
    return fitted_argument(labels, replace(item, spec=spec))


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
        order = np.random.default_rng([seed, epoch]).permutation(len(samples))
        for index in range(first, per_epoch):
            chosen = order[index * batch : (index + 1) * batch]
            yield (
                {name: array[chosen] for name, array in samples.inputs.items()},
                {name: array[chosen] for name, array in samples.labels.items()},
            )
        start += per_epoch - first


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not os.path.isfile(path):
        raise DataError("the data file does not exist", where=str(path), hint="check the path")
    if not zipfile.is_zipfile(path):
        raise DataError("not an .npz file", where=str(path), hint=_HINT)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (
        *(zipfile.BadZipFile, zlib.error),
        *(AttributeError, EOFError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    ) as error:
        raise DataError(
            f"not a readable .npz file ({error})", where=str(path), hint=_HINT
        ) from error
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _check_lengths(arrays: Mapping[str, np.ndarray], where: str) -> None:
    lengths = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        text = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(
            f"the arrays differ in length, or are empty: {text}",
            where=where,
            hint="each needs one entry a sample",
        )


def _check_samples(array: np.ndarray, spec: TensorSpec, where: str) -> None:
    if array.shape[1:] != spec.shape[1:]:
        raise DataError(
            f"a sample of {spec.name} has shape {list(array.shape[1:])}; "
            f"the step was compiled for {list(spec.shape[1:])}",
            where=where,
            hint="reshape the array, samples first",
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
