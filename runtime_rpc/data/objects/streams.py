"""Datasets that can only be gone through: IterableDataset of PyTorch, streams of Hugging Face."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.specs import Role
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.data.objects.tabular import columns_of_batch
from odtc.runtime_rpc.data.source import Batch


@dataclass(frozen=True)
class Streamed:
    """The samples of a stream, as batches: a pass goes through all of it.

    Attributes:
        dataset: gives a sample after the other each time that it is gone through.
        naming: of what a sample has.
        size: samples of a batch; the last of a pass may have fewer.
    """

    dataset: Any
    naming: Naming
    size: int

    def __iter__(self) -> Iterator[Batch]:
        samples = iter(self.dataset)
        while items := [*islice(samples, self.size)]:
            if (table := columns_of_batch(items, self.naming)) is not None:
                yield table
                continue
            named = [self.naming.named(item) for item in items]
            labels = () if self.naming.inputs_alone else self.naming.labels
            yield (
                self.naming.stacked(named, self.naming.inputs),
                self.naming.stacked(named, labels),
            )

    def begin(self, number: int) -> None:
        """Tells the dataset the number of a pass, by which one of Hugging Face shuffles."""
        tell = getattr(self.dataset, "set_epoch", None)
        if tell is not None:
            tell(number)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not done with it, and what is not taken of it."""
        columns = dict.fromkeys(getattr(self.dataset, "column_names", None) or ())
        try:
            left_out = self.naming.left_out(columns) if columns else ""
        except DataError:
            # Of a column for each number, or wrong: the first sample tells.
            left_out = ""
        said = (
            f"{self.naming.where} is a stream: it is not shuffled here, so let it shuffle itself, "
            "as by dataset.shuffle(buffer_size=1000) of Hugging Face; how many steps an epoch has "
            "is known at its end"
        )
        # Nobody shuffles what is predicted.
        return tuple(filter(None, ("" if self.naming.inputs_alone else said, left_out)))


def is_stream(data: Any) -> bool:
    """Whether it is a dataset of samples that can only be gone through."""
    of_stream = (_imported("torch.utils.data"), _imported("datasets"))
    return isinstance(data, tuple(filter(None, of_stream)))


def _imported(module: str) -> type | None:
    """The IterableDataset of a module, if that was imported; users call modules `datasets`, too."""
    found = getattr(sys.modules.get(module), "IterableDataset", None)
    return found if isinstance(found, type) else None


def streamed(data: Any, manifest: Manifest, *, inputs_alone: bool = False) -> Streamed:
    """Its samples, in batches of the step; without labels where the inputs alone are asked for."""
    where = f"the {type(data).__name__}"
    inputs, labels = manifest.of_role(Role.INPUT), manifest.labels
    naming = Naming(inputs, labels, where, "a sample", inputs_alone)
    return Streamed(data, naming, manifest.batch)
