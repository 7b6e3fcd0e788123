"""Datasets of which a sample is asked for by its number: those of PyTorch and of Hugging Face."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.samples import LABELS
from odtc.runtime_rpc.data.source import Batch, Source
from odtc.runtime_rpc.feed.arrays import as_array


@dataclass(frozen=True)
class Indexed(Source):
    """A dataset, each of whose samples is a pair of input and label, or arrays by name.

    Attributes:
        data: the dataset.
        inputs: of the step.
        labels: of the step.
        count: samples of it.
        where: it is told as.
        class_names: see `Named`.
    """

    data: Any
    inputs: Sequence[Argument]
    labels: Sequence[Argument]
    count: int
    where: str
    class_names: tuple[str, ...] = ()

    @property
    def is_slow(self) -> bool:
        """See `Source.is_slow`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`."""
        many = getattr(self.data, "__getitems__", None)
        chosen = [int(number) for number in numbers]
        items = many(chosen) if many else [self.data[number] for number in chosen]
        named = [self._named(item) for item in items]
        return self._stacked(named, self.inputs), self._stacked(named, self.labels)

    def digest(self) -> str:
        """Their number: what a dataset gives is not known before it is asked."""
        return f"{self.count} of a dataset"

    def _named(self, item: Any) -> Mapping[str, Any]:
        """What a sample is, by the names of inputs and labels."""
        if isinstance(item, Mapping):
            return self._renamed(item)
        parts = item if isinstance(item, tuple | list) else (item,)
        arguments = (*self.inputs, *self.labels)
        if len(parts) != len(arguments):
            raise DataError(
                f"a sample has {len(parts)} parts; the step takes {len(arguments)}: "
                f"{', '.join(printable(each.spec.name) for each in arguments)}",
                where=self.where,
                hint="let the dataset give (input, label), or arrays by name",
            )
        return {each.spec.name: part for each, part in zip(arguments, parts, strict=True)}

    def _renamed(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        found = {}
        for items, others in ((self.inputs, ("x",)), (self.labels, LABELS)):
            for each in items:
                usual = [name for name in others if len(items) == 1 and name in item]
                keys = [each.spec.name] if each.spec.name in item else usual
                if len(keys) != 1:
                    name, said = printable(each.spec.name), " or ".join(keys)
                    raise DataError(
                        f"the {name} of a sample may be {said}"
                        if keys
                        else f"a sample has no {name}",
                        where=self.where,
                        hint=f"it has {', '.join(map(printable, item)) or 'nothing'}; let one of "
                        f"them be called {name}",
                    )
                found[each.spec.name] = item[keys[0]]
        return found

    def _stacked(
        self, items: Sequence[Mapping[str, Any]], arguments: Iterable[Argument]
    ) -> dict[str, np.ndarray]:
        arrays = {}
        for each in arguments:
            name = each.spec.name
            parts = [as_array(item[name], f"{self.where} {name}") for item in items]
            if len({part.shape for part in parts}) > 1:
                raise DataError(
                    f"{printable(name)} has the shapes {[*parts[0].shape]} and others",
                    where=self.where,
                    hint="let the dataset give each sample the same shape",
                )
            axis = each.place.axis if each.place else 0
            arrays[name] = np.stack(parts, axis) if each.place else parts[0]
        return arrays


def indexed(data: Any, manifest: Manifest) -> Indexed:
    """The samples of a dataset.

    Raises:
        DataError: it has none.
    """
    count, where = len(data), f"the {type(data).__name__}"
    if not count:
        raise DataError(f"{where} has no samples", where="data", hint="give one that has some")
    inputs, labels = manifest.of_role(Role.INPUT), manifest.labels
    return Indexed(data, inputs, labels, count, where, class_names_in(data, labels))


def class_names_in(data: Any, labels: Sequence[Argument]) -> tuple[str, ...]:
    """The names that a dataset has for its classes; none where it says none.

    Those of Hugging Face have them in the features of the label, those of torchvision in `classes`;
    a loader or a part of a dataset (`torch.utils.data.Subset`) has those of its `dataset`.
    """
    if len(labels) != 1 or labels[0].classes is None:
        return ()
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        keys = [name for name in (labels[0].spec.name, *LABELS) if name in features]
        return tuple(map(str, getattr(features[keys[0]], "names", ()))) if keys else ()
    # What a target_transform makes of the numbers is not known.
    if getattr(data, "target_transform", None) is not None:
        return ()
    classes = getattr(data, "classes", None)
    if isinstance(classes, list | tuple):
        return tuple(map(str, classes))
    inner = getattr(data, "dataset", None)
    return () if inner is None else class_names_in(inner, labels)
