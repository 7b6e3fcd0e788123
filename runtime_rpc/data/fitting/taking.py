"""Batches of datasets and loaders, taken as arrays of all samples are, and noted as they are."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from odtc.core.printable import printable
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.fitting.labels import are_words, as_labels
from odtc.runtime_rpc.data.fitting.said import lost_of, note_of_bytes, note_of_numbers
from odtc.runtime_rpc.data.fitting.shapes import note_of_shape, with_axes_of_one
from odtc.runtime_rpc.data.names import ToldSample, sample_of_batch
from odtc.runtime_rpc.feed.class_numbers import check_class_numbers

Arrays = dict[str, np.ndarray]


class Taking:
    """What may be meant by one thing alone is taken as that: axes of size 1, whole floats.

    Batches come on threads of their own, where no line of a user's code could be told with a
    warning, so notes wait for the thread that takes steps.

    Args:
        items: inputs and labels of the step.
        where: batches come from, for notes.
        is_predicted: whether there is no loss over them.
    """

    def __init__(
        self, items: Iterable[Argument], where: str, *, is_predicted: bool = False
    ) -> None:
        self._items = {item.spec.name: item for item in items}
        self._where, self._lost = where, lost_of(is_predicted=is_predicted)
        self._notes: dict[tuple[str, str], str] = {}
        self._told = 0

    def __call__(
        self, arrays: Mapping[str, np.ndarray], told: ToldSample = sample_of_batch
    ) -> Arrays:
        """The arrays of a batch as the step takes them, where nothing else may be meant.

        Args:
            arrays: of the batch.
            told: what its samples are called, by their places in it.

        Raises:
            DataError: a label is missing, or is no number of a class.
        """
        return {name: self._taken(array, name, told) for name, array in arrays.items()}

    def look(self, array: np.ndarray, name: str, told: ToldSample = sample_of_batch) -> None:
        """Notes where numbers of a batch are not finite, the first time."""
        if (name, "finite") in self._notes:
            return
        where = f"{self._where}, in a batch"
        for said in note_of_numbers(array, self._items[name], where, self._lost, told):
            self._note(name, "finite", said)

    def untold(self) -> Iterator[str]:
        """What is to be said of the batches so far; each thing once."""
        notes = [*self._notes.values()]
        yield from notes[self._told :]
        self._told = len(notes)

    def _taken(self, array: np.ndarray, name: str, told: ToldSample) -> np.ndarray:
        item = self._items.get(name)
        if item is None:
            return array
        self.look(array, name, told)
        if item.role is Role.LABEL:
            # Words are numbered by all that there are, which no batch shows.
            if are_words(array):
                return array
            labels = as_labels(array, item, (), self._where, told)
            self._note(name, "labels", labels.note)
            array = labels.array
        else:
            self._note(name, "bytes", note_of_bytes(array, item, self._where))
        shaped = with_axes_of_one(array, item)
        if shaped.shape != array.shape:
            shapes = ["samples", *array.shape[1:]], ["samples", *shaped.shape[1:]]
            said = note_of_shape(self._where, printable(name), *shapes)
            self._note(name, "shape", said)
        # Later nobody knows which samples are in a batch.
        if item.classes and shaped.dtype.kind in "iu" and shaped.ndim == len(item.spec.shape):
            check_class_numbers(shaped, item.classes, item.spec, item.place, told)
        return shaped

    def _note(self, name: str, what: str, text: str) -> None:
        if text:
            self._notes.setdefault((name, what), text)
