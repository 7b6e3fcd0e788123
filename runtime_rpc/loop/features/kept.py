"""Sources whose inputs are features: what frozen layers made of each sample, once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from odtc.core.ir.place import Place, take
from odtc.runtime_rpc.data.mapped import let_go
from odtc.runtime_rpc.data.source import Arrays, Batch, Wrapped
from odtc.runtime_rpc.feed.features import FeatureFeed


@dataclass(frozen=True)
class Kept:
    """What is kept of samples: features, and inputs that are read beside them.

    Attributes:
        arrays: by name, of all samples.
        places: where these lie in each.
        check: raises where the weights that they were made with are others now.
    """

    arrays: Mapping[str, np.ndarray]
    places: Mapping[str, Place]
    check: Callable[[], None] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in self.arrays.values())

    def of(self, numbers: np.ndarray) -> Arrays:
        """That of some samples, by their numbers."""
        self.check()
        found = {k: take(array, self.places[k], numbers) for k, array in self.arrays.items()}
        for array in self.arrays.values():
            let_go(array)
        return found


@dataclass(frozen=True)
class KeptSamples(Wrapped):
    """The samples of a training, in any order.

    Attributes:
        kept: of them.
        labels: by name, of all samples.
        label_places: where these lie in each.
    """

    kept: Kept
    labels: Mapping[str, np.ndarray]
    label_places: Mapping[str, Place]

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`."""
        labels = {k: take(a, self.label_places[k], numbers) for k, a in self.labels.items()}
        return FeatureFeed(self.kept.of(numbers)), labels


@dataclass(frozen=True)
class KeptInOrder(Wrapped):
    """The samples of a validation, in order: features of whole micro-batches, and the rest.

    Attributes:
        kept: of those in whole micro-batches.
        labels: by name, of all samples.
        label_places: where these lie in each.
        whole: samples that fill micro-batches.
        rest: inputs of the others.
    """

    kept: Kept
    labels: Mapping[str, np.ndarray]
    label_places: Mapping[str, Place]
    whole: int
    rest: Mapping[str, np.ndarray] | None

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`; samples that fill no micro-batch are the last ones asked for."""
        labels = {k: take(a, self.label_places[k], numbers) for k, a in self.labels.items()}
        kept = self.kept.of(numbers[numbers < self.whole])
        return FeatureFeed(kept, self.rest if numbers[-1] >= self.whole else None), labels
