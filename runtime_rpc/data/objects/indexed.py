"""Datasets of which a sample is asked for by its number: those of PyTorch and of Hugging Face."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.fitting.taking import Taking
from odtc.runtime_rpc.data.names import LABELS, sample_among
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.data.objects.streams import is_stream
from odtc.runtime_rpc.data.source import Arrays, Batch, Source


@dataclass(frozen=True)
class Indexed(Source):
    """A dataset, each of whose samples is a pair of input and label, or arrays by name.

    Attributes:
        data: the dataset.
        inputs: of the step.
        labels: of the step.
        count: samples of it.
        where: it is told as.
        taking: of its batches.
        class_names: see `Named`.
        notes: see `Source`.
        inputs_alone: whether labels are left out, which need not be there.
    """

    data: Any
    inputs: Sequence[Argument]
    labels: Sequence[Argument]
    count: int
    where: str
    taking: Taking
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    inputs_alone: bool = False

    @property
    def is_slow(self) -> bool:
        """See `Source.is_slow`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`."""
        many = getattr(self.data, "__getitems__", None)
        chosen = [int(number) for number in numbers]
        items = many(chosen) if many else [self.data[number] for number in chosen]
        naming = self._naming
        named = [naming.named(item) for item in items]
        labels = () if self.inputs_alone else self.labels
        found = self.stacked(named, (*self.inputs, *labels))
        x, y = ({i.spec.name: found[i.spec.name] for i in of} for of in (self.inputs, labels))
        told = sample_among(chosen)
        return self.taking(x, told), self.taking(y, told)

    def stacked(self, items: Sequence[Mapping[str, Any]], arguments: Sequence[Argument]) -> Arrays:
        """Samples, by the names of arguments, as arrays of all of them.

        Raises:
            DataError: one is no array, or they have several shapes.
        """
        return self._naming.stacked(items, arguments)

    def untold(self) -> Iterable[str]:
        """See `Source.untold`."""
        return self.taking.untold()

    def digest(self) -> str:
        """Their number: what a dataset gives is not known before it is asked."""
        return f"{self.count} of a dataset"

    @property
    def _naming(self) -> Naming:
        return Naming(self.inputs, self.labels, self.where, "a sample", self.inputs_alone)


def indexed(data: Any, manifest: Manifest, *, inputs_alone: bool = False) -> Indexed:
    """The samples of a dataset.

    Args:
        data: the dataset.
        manifest: of the step.
        inputs_alone: whether labels are left out, which need not be there.

    Raises:
        DataError: it has none.
    """
    count, where = len(data), f"the {type(data).__name__}"
    if not count:
        raise DataError(f"{where} has no samples", where="data", hint="give one that has some")
    inputs, labels = manifest.of_role(Role.INPUT), manifest.labels
    # Those of Hugging Face say what a sample has before one is asked for.
    columns = dict.fromkeys(getattr(data, "column_names", None) or ())
    naming = Naming(inputs, labels, where, "a sample", inputs_alone)
    said = naming.left_out(columns) if columns else ""
    names = class_names_in(data, labels)
    taking = Taking((*inputs, *labels), where, is_predicted=inputs_alone)
    notes = (said,) if said else ()
    return Indexed(data, inputs, labels, count, where, taking, names, notes, inputs_alone)


def is_indexed(data: Any, _: Any = None) -> bool:
    """Whether samples are asked for by number, as of a Dataset of PyTorch or of Hugging Face."""
    is_held = isinstance(data, list | tuple | str | bytes) or hasattr(data, "dtype")
    # An IterableDataset of PyTorch may say its length, and has a method that only raises.
    return (
        not is_held
        and not is_stream(data)
        and all(hasattr(data, name) for name in ("__getitem__", "__len__"))
    )


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
