"""Checks what a caller feeds against the specs of the compiled step."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from odtc.core.errors import DataError
from odtc.core.manifest import Manifest
from odtc.core.specs import Argument, Classes, Role, TensorSpec

Feed = np.ndarray | Mapping[str, np.ndarray]


def named_arrays(feed: Feed, names: Sequence[str], what: str = "input") -> dict[str, np.ndarray]:
    """The fed arrays by name; a bare array is the only one.

    Args:
        feed: an array, or arrays by name.
        names: of the inputs, or of the labels.
        what: `input` or `label`.

    Raises:
        DataError: one is missing, or one is fed that the step does not take.
    """
    if not isinstance(feed, Mapping):
        if len(names) != 1:
            raise DataError(
                f"the model has {len(names)} {what}s, and one array was fed",
                hint=f"feed {{name: array}} with {', '.join(names)}",
            )
        return {names[0]: np.asarray(feed)}
    if set(feed) != set(names):
        raise DataError(
            f"the {what}s fed are {', '.join(sorted(feed)) or 'none'}",
            hint=f"feed {', '.join(names) or 'none'}",
        )
    return {name: np.asarray(feed[name]) for name in names}


def fitted(array: np.ndarray, spec: TensorSpec, what: str = "input") -> np.ndarray:
    """The array in the dtype of the spec.

    Raises:
        DataError: the shape differs, or the dtype is of another kind.
    """
    where = what if what == spec.name else f"{what} {spec.name}"
    if array.shape != spec.shape:
        raise DataError(
            f"{spec.name} has shape {list(array.shape)}; the step takes {list(spec.shape)}",
            where=where,
            hint="feed whole batches, or compile for another --batch",
        )
    if array.dtype == spec.dtype and array.flags.c_contiguous:
        return array
    if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise DataError(
            f"{spec.name} is {array.dtype}; the step takes {spec.dtype}",
            where=where,
            hint=f"convert it to {spec.dtype}",
        )
    return np.asarray(array, spec.dtype, order="C")


def fitted_argument(array: np.ndarray, item: Argument) -> np.ndarray:
    """The array in the dtype of an input or label, its class numbers checked.

    Raises:
        DataError: the shape differs, the dtype is of another kind, or a class number is none.
    """
    if item.classes is None:
        return fitted(array, item.spec, item.role)
    _check_classes(array, item.classes, item.spec.name)
    return fitted(array.astype(item.spec.dtype, copy=False), item.spec, item.role)


class Intake:
    """What a caller feeds a step, as its calls take it; what is wanted is looked up once.

    Args:
        manifest: of the step.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._micro_batches = manifest.micro_batches
        self._wanted = {role: manifest.fed(role) for role in (Role.INPUT, Role.LABEL)}
        self._names = {role: [i.spec.name for i in items] for role, items in self._wanted.items()}
        self._of_a_call = {role: manifest.of_role(role) for role in self._wanted}

    def parts(self, x: Feed, y: Feed | None) -> list[Mapping[Argument, np.ndarray]]:
        """What each call of a step is fed.

        Raises:
            DataError: a name, a shape, a dtype or a label does not fit.
        """
        fed = self._fitted(x, Role.INPUT) | self._fitted({} if y is None else y, Role.LABEL)
        if self._micro_batches == 1:
            return [fed]
        return [
            {item: _rows(array, part, item.spec.shape[0]) for item, array in fed.items()}
            for part in range(self._micro_batches)
        ]

    def _fitted(self, feed: Feed, role: Role) -> dict[Argument, np.ndarray]:
        """What is fed of a role for a whole step, by the argument of a call that it is for."""
        arrays = named_arrays(feed, self._names[role], role.value)
        return {
            item: fitted_argument(arrays[whole.spec.name], whole)
            for item, whole in zip(self._of_a_call[role], self._wanted[role], strict=True)
        }


def _rows(array: np.ndarray, part: int, count: int) -> np.ndarray:
    return array[part * count : (part + 1) * count]


def _check_classes(labels: np.ndarray, classes: Classes, name: str) -> None:
    """Checks class numbers: one outside would be read past the end of a row of scores."""
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"labels are {labels.dtype}; they must be integers",
            where=name,
            hint="number the classes from 0, and convert the labels to an integer dtype",
        )
    wrong = (labels < 0) | (labels >= classes.count)
    also = ""
    if classes.ignored is not None:
        wrong &= labels != classes.ignored
        also = f" and is not {classes.ignored}, which is ignored"
    if np.count_nonzero(wrong):
        first = int(np.flatnonzero(wrong)[0])
        sample = int(np.unravel_index(first, labels.shape)[0]) if labels.ndim else 0
        raise DataError(
            f"label {labels.flat[first]} is outside [0, {classes.count}){also}",
            where=f"{name}, sample {sample}",
            hint=f"the model has {classes.count} classes, counted from 0",
        )


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
