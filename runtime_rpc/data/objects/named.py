"""A sample, or a batch of samples, as arrays by the names of inputs and labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import LABELS, listed
from odtc.runtime_rpc.feed.arrays import as_array

# What documents of a language model have, whose labels are made.
_TEXTS = {"text", "prompt", "completion", "input_ids"}
_OF_TEXT = (
    "documents without labels go as a list, or as a Dataset that says its length; texts with "
    "tokenizer= beside them"
)


@dataclass(frozen=True)
class Naming:
    """Finds the inputs and labels of a step in what datasets and loaders give.

    Attributes:
        inputs: of the step.
        labels: of the step.
        where: samples come from, for messages.
        what: one of them is called in messages, such as `a sample`.
        inputs_alone: whether labels are left out, which need not be there.
    """

    inputs: Sequence[Argument]
    labels: Sequence[Argument]
    where: str
    what: str
    inputs_alone: bool = False

    def named(self, item: Any) -> dict[str, Any]:
        """What an item has, by the names of inputs and labels.

        A mapping has it by name: the only input may be called `x`, or as anything where nothing
        else may be it, the only label as in tables. A tuple has it in order.

        Raises:
            DataError: something is missing, or may be one of several.
        """
        if isinstance(item, Mapping):
            taken = self.keys(item)
            return {name: item[key] for name, key in taken.items()}
        parts = item if isinstance(item, tuple | list) else (item,)
        arguments = (*self.inputs, *self.labels)
        if self.inputs_alone and len(parts) == len(self.inputs):
            arguments = (*self.inputs,)
        if len(parts) != len(arguments):
            raise DataError(
                f"{self.what} has {len(parts)} parts; the step takes {len(arguments)}: "
                f"{listed([each.spec.name for each in arguments])}",
                where=self.where,
                hint="let the dataset give (input, label), or arrays by name",
            )
        return {each.spec.name: part for each, part in zip(arguments, parts, strict=True)}

    def keys(self, names: Iterable[Any]) -> dict[str, str]:
        """The key of each input and label in a mapping that has these.

        Raises:
            DataError: one is missing, or several may be it.
        """
        names = [*names]
        found = self.label_keys(names)
        of_labels = {*found.values(), *self._usual_labels}
        rest = [name for name in names if name not in of_labels]
        # A step of one input takes the only thing that is no label.
        usual = [*dict.fromkeys(("x", *rest))] if len(rest) == 1 else ["x"]
        return {i.spec.name: self._key(i, usual, self.inputs, names) for i in self.inputs} | found

    def label_keys(self, names: Iterable[Any]) -> dict[str, str]:
        """The key of each label in a mapping that has these; none where the inputs alone are read.

        Raises:
            DataError: one is missing, or several may be it.
        """
        read, names = () if self.inputs_alone else self.labels, [*names]
        return {each.spec.name: self._key(each, LABELS, self.labels, names) for each in read}

    def left_out(self, item: Any) -> str:
        """What is to be said of what a mapping has beside inputs and labels; empty for nothing."""
        if not isinstance(item, Mapping):
            return ""
        taken = set(self.keys(item).values())
        if self.inputs_alone:
            taken |= self._usual_labels
        others = [str(name) for name in item if name not in taken]
        if not others:
            return ""
        return (
            f"{self.where}: not taken, as they are neither inputs nor labels: {listed(others)}; "
            f"the step takes {listed([each.spec.name for each in (*self.inputs, *self.labels)])}"
        )

    @property
    def _usual_labels(self) -> set[str]:
        """What labels are called, wherever they are."""
        return {*LABELS, *(each.spec.name for each in self.labels)}

    def stacked(
        self, items: Sequence[Mapping[str, Any]], arguments: Iterable[Argument]
    ) -> dict[str, np.ndarray]:
        """Samples as arrays of all of them.

        Raises:
            DataError: one is no array, or they have several shapes.
        """
        arrays = {}
        for each in arguments:
            name = each.spec.name
            parts = [self._array(item[name], name) for item in items]
            if len({part.shape for part in parts}) > 1:
                raise DataError(
                    f"{printable(name)} has the shapes {[*parts[0].shape]} and others",
                    where=self.where,
                    hint="let the dataset give each sample the same shape",
                )
            axis = each.place.axis if each.place else 0
            arrays[name] = np.stack(parts, axis) if each.place else parts[0]
        return arrays

    def _array(self, value: Any, name: str) -> np.ndarray:
        if isinstance(value, str):
            raise DataError(
                f"{printable(name)} is a text, {printable(repr(value))}; the step takes numbers",
                where=self.where,
                hint="number the classes from 0, as dataset.class_encode_column(NAME) of Hugging "
                "Face does, or a target_transform of torchvision; a file or arrays may have names",
            )
        return as_array(value, f"{self.where} {name}")

    def _key(
        self, item: Argument, others: Sequence[str], items: Sequence[Argument], names: list[Any]
    ) -> str:
        usual = [name for name in others if len(items) == 1 and name in names]
        keys = [item.spec.name] if item.spec.name in names else usual
        if len(keys) == 1:
            return keys[0]
        name, said = printable(item.spec.name), " or ".join(map(printable, keys))
        raise DataError(
            f"the {name} of {self.what} may be {said}" if keys else f"{self.what} has no {name}",
            where=self.where,
            hint=f"it has {listed([*map(str, names)]) or 'nothing'}; "
            + (_OF_TEXT if {*names} & _TEXTS else f"let one of them be called {name}"),
        )
