"""Batches of rows of several lengths that become one array: all as long as the longest of them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import Place, join
from odtc.core.printable import printable
from odtc.core.specs import Role
from odtc.runtime_rpc.lengths.rows import NO_LABEL, NOT_EXACT, Rows

Arrays = dict[str, np.ndarray]


class Joining:
    """Joins batches of samples.

    Args:
        manifest: of the step.
        is_exact: whether what fills rows up changes nothing before it; asked where that is done.
        where: batches come from, for messages.
    """

    def __init__(
        self, manifest: Manifest, is_exact: Callable[[], bool], where: str = "data"
    ) -> None:
        items = (*manifest.fed(Role.INPUT), *manifest.labels)
        self._places = {item.spec.name: item.place for item in items}
        self._rows = Rows(manifest) if manifest.shorter else None
        self._is_exact, self._where = is_exact, where

    def __call__(self, batches: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
        """The samples of batches, one after the other; of what is one for all samples the first.

        Args:
            batches: arrays by the same names, inputs and labels.

        Raises:
            DataError: their shapes differ in more than the samples, and nothing fills them up.
        """
        same = self._filled(batches)
        return {
            name: self._joined(name, [each[name] for each in same], self._places.get(name))
            for name in batches[0]
        }

    def _filled(
        self, batches: Sequence[Mapping[str, np.ndarray]]
    ) -> Sequence[Mapping[str, np.ndarray]]:
        rows = self._rows
        if rows is None:
            return batches
        widths = [rows.width(arrays) for arrays in batches]
        if len({*widths}) == 1:
            return batches
        why = NO_LABEL if not rows.can_fill else "" if self._is_exact() else NOT_EXACT
        if why:
            found = ", ".join(map(str, dict.fromkeys(widths)))
            raise DataError(
                f"batches have rows of {found} places, and cannot be filled up to one length: "
                f"{why}",
                where=self._where,
                hint=f"give batches of one length: {', '.join(map(str, rows.lengths))}",
            )
        return [rows.fit(arrays, max(widths)) for arrays in batches]

    def _joined(self, name: str, parts: list[np.ndarray], place: Place | None) -> np.ndarray:
        if place is None:
            return parts[0]
        shapes = {_apart(part.shape, place): [*part.shape] for part in parts}
        if len(shapes) > 1:
            first, other, *_ = shapes.values()
            raise DataError(
                f"batches have {printable(name)} of the shapes {first} and {other}, which cannot "
                "form one array",
                where=self._where,
                hint="give each sample the same shape",
            )
        return join(parts, place)


def _apart(shape: tuple[int, ...], place: Place) -> tuple[int, ...]:
    """A shape without its samples."""
    return (*shape[: place.axis], -1, *shape[place.axis + 1 :])
