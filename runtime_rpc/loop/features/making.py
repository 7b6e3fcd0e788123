"""Makes features of samples, a micro-batch at a time, and says where they may not be kept."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from odtc.core.artifact.manifest import Features, Manifest
from odtc.core.errors import UsageError
from odtc.core.ir.place import Place, join, pad, take
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.mapped import let_go
from odtc.runtime_rpc.data.source import Arrays, Source
from odtc.runtime_rpc.loop.features.kept import Kept
from odtc.runtime_rpc.loop.features.storage import kept_array
from odtc.runtime_rpc.loop.trained import Trained

# Reading features has to take less than this part of the time that it takes to make them.
_WORTH = 4


@dataclass(frozen=True)
class Maker:
    """Makes the features of some functions.

    Attributes:
        trainer: that computes them.
        functions: what goes on from them.
    """

    trainer: Trained
    functions: Sequence[Features]

    @property
    def _manifest(self) -> Manifest:
        return self.trainer.manifest

    @property
    def items(self) -> tuple[Argument, ...]:
        """What is kept: features, and inputs that the functions read beside."""
        beside = {name for each in self.functions for name in each.inputs}
        inputs = [i for i in self._manifest.of_role(Role.INPUT) if i.spec.name in beside]
        return (*(item for each in self.functions for item in each.arguments), *inputs)

    @property
    def sample_bytes(self) -> int:
        """Bytes that are kept of a sample."""
        return sum(item.spec.nbytes for item in self.items) // self._manifest.micro_batch

    def of(self, x: Arrays) -> Arrays:
        """The features of one micro-batch, with the inputs that are read beside."""
        found = {name: x[name] for each in self.functions for name in each.inputs}
        for each in self.functions:
            found |= self.trainer.features(each, x)
        return found

    def refusal(self, source: Source) -> str:
        """Why the features of samples may not be kept, or are not worth it; empty where they are.

        Frozen layers may mix samples, and kernels may round a sample at another place of the batch
        otherwise. Both are tried out: samples change their places and their company.
        """
        size = self._manifest.micro_batch
        numbers = np.arange(size) % len(source)
        moved = numbers[::-1].copy()
        moved[: size // 2] = 0
        x, other = (source.take(each)[0] for each in (numbers, moved))
        before, after = self.of(x), self.of(other)
        at = np.concatenate([np.zeros(size // 2, np.int64), np.arange(size)[::-1][size // 2 :]])
        for item in self.items:
            place, name = item.place or Place(0), item.spec.name
            if take(before[name], place, at).tobytes() != after[name].tobytes():
                return "what they make of a sample depends on the others of its batch"
        making = _seconds(lambda: self.of(x))
        # Of several: where one of them waits for a core, a microsecond's work takes milliseconds.
        reading = min(_seconds(lambda: [v.copy() for v in before.values()]) for _ in range(5))
        if making < _WORTH * reading:
            return "to compute them takes no longer than to read what they make"
        return ""

    def kept(self, source: Source, count: int) -> tuple[Kept, Arrays, Arrays]:
        """The features of the first samples, the labels of all, and the inputs of the others.

        Args:
            source: of the samples.
            count: of which features are made; all, or as many as fill micro-batches.

        Raises:
            OSError: there is no room for them.
            OdtcError: samples cannot be read, or the device failed.
        """
        size, manifest = self._manifest.micro_batch, self._manifest
        arrays = {item: kept_array(_shape(item, count), item.spec.dtype) for item in self.items}
        labels: dict[str, list[np.ndarray]] = {item.spec.name: [] for item in manifest.labels}
        rest: Arrays = {}
        for start, (x, y) in zip(range(0, len(source), size), source.parts(size), strict=True):
            for name, held in labels.items():
                held.append(y[name])
            rest = x
            if start < count:
                self._fill(arrays, start, min(size, count - start), x)
        places = {item.spec.name: item.place for item in manifest.labels}
        joined = {name: join(held, places[name] or Place(0)) for name, held in labels.items()}
        named = {item.spec.name: array for item, array in arrays.items()}
        kept = Kept(named, {i.spec.name: i.place or Place(0) for i in arrays}, self._check())
        return kept, joined, rest

    def _fill(
        self, arrays: Mapping[Argument, np.ndarray], start: int, length: int, x: Arrays
    ) -> None:
        """Writes the features of some samples, which may fill less than a micro-batch."""
        missing = self._manifest.micro_batch - length
        if missing:
            inputs = {i.spec.name: i.place for i in self._manifest.of_role(Role.INPUT)}
            x = {k: pad(v, at, missing) if (at := inputs[k]) else v for k, v in x.items()}
        found = self.of(x)
        for item, array in arrays.items():
            place = item.place or Place(0)
            rows = slice(start * place.inner, (start + length) * place.inner)
            one = take(found[item.spec.name], place, slice(length))
            array[(slice(None),) * place.axis + (rows,)] = one
            let_go(array)

    def _check(self) -> Callable[[], None]:
        """What raises where frozen weights are others than now."""
        before = self.trainer.frozen_writes

        def check() -> None:
            if self.trainer.frozen_writes != before:
                raise UsageError(
                    "frozen weights were given other values, and what they made of the samples "
                    "before is kept for the run",
                    where="fit",
                    hint="keep nothing: feature_cache=0",
                )

        return check


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _shape(item: Argument, samples: int) -> tuple[int, ...]:
    return (item.place or Place(0)).shape_of(item.spec.shape, samples)
