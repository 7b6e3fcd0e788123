"""Checks what a caller feeds against the specs of the compiled step."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from odtc.core.errors import DataError
from odtc.core.specs import TensorSpec

Feed = np.ndarray | Mapping[str, np.ndarray]


def named_inputs(feed: Feed, specs: Sequence[TensorSpec]) -> dict[str, np.ndarray]:
    """The fed arrays by input name; a bare array is the only input.

    Raises:
        DataError: an input is missing, or one is fed that the model does not have.
    """
    names = [spec.name for spec in specs]
    if not isinstance(feed, Mapping):
        if len(specs) != 1:
            raise DataError(
                f"the model has {len(specs)} inputs, and one array was fed",
                hint=f"feed {{name: array}} with {', '.join(names)}",
            )
        return {names[0]: np.asarray(feed)}
    if set(feed) != set(names):
        raise DataError(
            f"the inputs fed are {', '.join(sorted(feed)) or 'none'}",
            hint=f"feed {', '.join(names)}",
        )
    return {name: np.asarray(feed[name]) for name in names}


def fitted(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """The array in the dtype of the spec.

    Raises:
        DataError: the shape differs, or the dtype is of another kind.
    """
    if array.shape != spec.shape:
        raise DataError(
            f"{spec.name} has shape {list(array.shape)}; the step takes {list(spec.shape)}",
            where=f"input {spec.name}",
            hint="feed whole batches, or compile for another --batch",
        )
    if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise DataError(
            f"{spec.name} is {array.dtype}; the step takes {spec.dtype}",
            where=f"input {spec.name}",
            hint=f"convert it to {spec.dtype}",
        )
    return np.ascontiguousarray(array, spec.dtype)


def fitted_labels(labels: np.ndarray, spec: TensorSpec, classes: int) -> np.ndarray:
    """Integer labels in the dtype of the spec.

    Raises:
        DataError: the shape differs, they are not integers, or one is outside [0, classes).
    """
    labels = np.asarray(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels are {labels.dtype}; they must be integers",
            where="label",
            hint="number the classes from 0, and convert the labels to an integer dtype",
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        wrong = int(np.flatnonzero((labels < 0) | (labels >= classes))[0])
        raise DataError(
            f"label {labels.flat[wrong]} is outside [0, {classes})",
            where=f"label, sample {wrong}",
            hint=f"the model has {classes} classes, counted from 0",
        )
    return fitted(labels.astype(spec.dtype), spec)


def padded_batches(
    inputs: Mapping[str, np.ndarray], batch: int
) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Cuts inputs into batches, the last filled up with zeros; yields each with its true length.

    Raises:
        DataError: the inputs hold different numbers of samples, or none.
    """
    lengths = {name: array.shape[0] if array.ndim else 0 for name, array in inputs.items()}
    total = next(iter(lengths.values()))
    if total == 0 or len(set(lengths.values())) != 1:
        raise DataError(f"the inputs hold different numbers of samples, or none: {lengths}")
    for start in range(0, total, batch):
        part = {name: array[start : start + batch] for name, array in inputs.items()}
        length = min(batch, total - start)
        yield {name: _fill(array, batch - length) for name, array in part.items()}, length


def _fill(array: np.ndarray, missing: int) -> np.ndarray:
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1)) if missing else array
