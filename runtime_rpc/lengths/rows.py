"""Rows that have as many places as a length: which they are, how many of them count, and filling.

What fills a row up has to change nothing: labels there are those that the loss ignores, a mask is
zero, and whether outputs of what is before are the same is found out by the trainer's own step
(`odtc/runtime_rpc/lengths/exactness.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import Place
from odtc.core.printable import printable
from odtc.core.specs import FED_ROLES, Argument, Role

Arrays = Mapping[str, np.ndarray]
# In the name of an input that is not 0 where a row has something.
_MASK = "mask"

NOT_EXACT = (
    "outputs of the model depend on what comes behind a place, as without a mask of attention"
)
NO_LABEL = "no label says where they end: the loss ignores none, or is in the model"
"""Why rows cannot be filled up."""


@dataclass(frozen=True)
class Row:
    """An input or a label whose shape goes with the length.

    Attributes:
        item: at the longest length.
        axes: along which it is as long.
    """

    item: Argument
    axes: tuple[int, ...]

    @property
    def is_mask(self) -> bool:
        """Whether it says where a row has something."""
        return self.item.role is Role.INPUT and _MASK in self.item.spec.name.lower()

    @property
    def ignored(self) -> int | None:
        """The label that takes no part in the loss; None where there is none."""
        return self.item.classes.ignored if self.item.classes else None

    @property
    def filling(self) -> int:
        """The value of places where there is nothing."""
        return 0 if self.ignored is None else self.ignored

    def fit(self, array: np.ndarray, length: int) -> np.ndarray:
        """The array, cut or filled up at the end of its rows."""
        cut = array[self._first(length)]
        more = [(0, length - n if axis in self.axes else 0) for axis, n in enumerate(cut.shape)]
        return np.pad(cut, more, constant_values=self.filling) if np.any(more) else cut

    def _first(self, length: int) -> tuple[slice, ...]:
        last = max(self.axes)
        return tuple(slice(length) if a in self.axes else slice(None) for a in range(last + 1))

    def at(self, length: int) -> Argument:
        """The argument of another length."""
        sizes = enumerate(self.item.spec.shape)
        shape = tuple(length if axis in self.axes else n for axis, n in sizes)
        return replace(self.item, spec=replace(self.item.spec, shape=shape))

    def used(self, array: np.ndarray) -> int:
        """How many places a row has at least, by the last one that is not filled up."""
        there, most = array != self.filling, 0
        for axis in self.axes:
            others = tuple(each for each in range(array.ndim) if each != axis)
            found = np.flatnonzero(there.any(axis=others))
            most = max(most, int(found[-1]) + 1 if found.size else 0)
        return most

    def used_each(self, array: np.ndarray) -> np.ndarray:
        """The same of each sample, where each has its own place along an axis."""
        place = self.item.place
        assert place
        there = np.moveaxis(array != self.filling, place.axis, 0)
        most = np.zeros(len(there), np.int64)
        for axis in self.axes:
            at = axis if axis > place.axis else axis + 1
            others = tuple(each for each in range(1, there.ndim) if each != at)
            found = there.any(axis=others)[:, ::-1]
            used = np.where(found.any(axis=1), found.shape[1] - found.argmax(axis=1), 0)
            most = np.maximum(most, used)
        return most

    def width(self, array: np.ndarray) -> int:
        """How long the rows of an array are.

        Raises:
            DataError: it has no such axis, is not as long along each, or has no place.
        """
        sizes = {array.shape[axis] for axis in self.axes if axis < array.ndim}
        if array.ndim != len(self.item.spec.shape) or len(sizes) != 1 or 0 in sizes:
            shape = ["length" if a in self.axes else n for a, n in enumerate(self.item.spec.shape)]
            raise DataError(
                f"{printable(self.item.spec.name)} has shape {list(array.shape)}; "
                f"the step takes [{', '.join(map(str, shape))}]",
                where=f"{self.item.role} {self.item.spec.name}",
                hint="a single row is a batch of one: x[None]",
            )
        return sizes.pop()


class Rows:
    """The rows of a step, by name.

    Args:
        manifest: of a step with several lengths.

    Attributes:
        lengths: at which it can be taken, the longest first.
    """

    def __init__(self, manifest: Manifest) -> None:
        longest, *shorter = manifest.lengths.values()
        self.lengths = tuple(manifest.lengths)
        fed = zip(longest.of_role(*FED_ROLES), shorter[-1].of_role(*FED_ROLES), strict=True)
        found = (Row(item, axes_between(item.spec.shape, other.spec.shape)) for item, other in fed)
        self._of = {row.item.spec.name: row for row in found if row.axes}
        labels = [row for row in self._of.values() if row.item.role is Role.LABEL]
        marks = [row for row in self._of.values() if row.is_mask]
        self._marks = [*labels, *marks]
        # Without labels, the loss is in the model and takes what fills a row up for what is there.
        self.can_fill = bool(manifest.labels and self._marks) and all(
            row.ignored is not None for row in labels
        )

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def __getitem__(self, name: str) -> Row:
        return self._of[name]

    def width(self, arrays: Arrays) -> int:
        """How long rows are that are fed together.

        Raises:
            DataError: some are longer than others.
        """
        fed = [(name, array) for name, array in arrays.items() if name in self]
        widths = {name: self._of[name].width(array) for name, array in fed}
        if len({*widths.values()}) > 1:
            said = ", ".join(f"{printable(name)} {width}" for name, width in widths.items())
            raise DataError(f"rows differ in length: {said}", hint="fill the shorter ones up")
        return next(iter(widths.values()), self.lengths[0])

    def used(self, arrays: Arrays) -> int:
        """How many places of the rows count, by labels and masks."""
        marks = [row for row in self._marks if row.item.spec.name in arrays]
        return max((row.used(arrays[row.item.spec.name]) for row in marks), default=0)

    def lengths_of(self, arrays: Arrays) -> np.ndarray | None:
        """The length at which a step takes each sample; None where nothing shows it of each."""
        marks = [row for row in self._marks if row.item.spec.name in arrays]
        places = [row.item.place for row in marks]
        if not marks or any(each is None or each != Place(each.axis) for each in places):
            return None
        used = np.max([row.used_each(arrays[row.item.spec.name]) for row in marks], axis=0)
        lengths = np.array(self.lengths[::-1])
        return lengths[np.minimum(np.searchsorted(lengths, used), len(lengths) - 1)]

    def fit(self, arrays: Arrays, length: int) -> dict[str, np.ndarray]:
        """The arrays, their rows cut or filled up."""
        return {
            name: self._of[name].fit(array, length) if name in self else array
            for name, array in arrays.items()
        }

    def of_samples(
        self, arrays: Arrays, *, inputs_alone: bool
    ) -> tuple[dict[str, np.ndarray], dict[str, Argument]]:
        """All samples of a run, and their arguments, at the length that they have.

        A step fills them up, where it takes them. What is longer than the step is cut where nothing
        behind counts; where there are no labels, nothing says that.

        Args:
            arrays: inputs and labels by name.
            inputs_alone: whether no label is read.

        Raises:
            DataError: they are not as long as each other, or too long, or cannot be filled up.
        """
        width, longest = self.width(arrays), self.lengths[0]
        if not (self.can_fill or inputs_alone):
            self.exactly(width, NO_LABEL)
        if width > longest:
            self.shortest(width if inputs_alone else self.used(arrays))
            width, arrays = longest, self.fit(arrays, longest)
        return {**arrays}, {name: self._of[name].at(width) for name in arrays if name in self}

    def shortest(self, places: int) -> int:
        """The shortest length that has so many places.

        Raises:
            DataError: the longest has not.
        """
        fitting = [length for length in self.lengths if length >= places]
        if not fitting:
            raise DataError(
                f"rows have {places} places that count; the longest length of the step is "
                f"{self.lengths[0]}",
                hint=f"cut them, or compile for longer ones: --lengths {places}",
            )
        return fitting[-1]

    def exactly(self, width: int, why: str) -> int:
        """That length, where rows cannot be filled up.

        Raises:
            DataError: it is none of the step's.
        """
        if width in self.lengths:
            return width
        raise DataError(
            f"rows have {width} places, and cannot be filled up or cut: {why}",
            hint=f"feed rows of {', '.join(map(str, self.lengths))}",
        )


def axes_between(longest: tuple[int, ...], shortest: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which shapes of two lengths differ."""
    pairs = zip(longest, shortest, strict=True)
    return tuple(axis for axis, (long, short) in enumerate(pairs) if long != short)
