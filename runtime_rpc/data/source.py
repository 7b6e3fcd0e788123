"""A source of samples, and the batches that a run takes of it.

A source only says how many samples there are, and gives those that are asked for. The order is made
here: all epochs follow each other as one stream, each in an order that depends on the seed and on
its number alone, and step `n` takes the `n`-th batch of that stream. So a batch may hold the last
samples of an epoch and the first of the next one: none is left out. A run that is taken up at any
step sees what it would have seen.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Protocol

import numpy as np

from odtc.core.errors import DataError
from odtc.core.options.caller_warning import warn_caller
from odtc.runtime_rpc.data.ahead import ahead
from odtc.runtime_rpc.data.wanted import ReadOptions

Arrays = dict[str, np.ndarray]
Batch = tuple[Arrays, Arrays]


class Named(Protocol):
    """Samples whose numbers may have names.

    Attributes:
        where: they come from, for messages.
        class_names: of the classes by their numbers; none where the samples do not say them.
        column_names: of the columns of each input that is made of columns, in their order.
    """

    @property
    def where(self) -> str: ...  # noqa: D102
    @property
    def class_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102


class Source(ABC):
    """Samples with their labels, any of which can be asked for.

    Attributes:
        count: how many there are.
        where: they come from, for messages.
        class_names: see `Named`.
        column_names: see `Named`.
        notes: what is to be said of them once.
        notes_of_training: what is to be said once of samples that are trained.
        is_text: whether they were made of text, or of tokens without labels.
        no_training: the error of who trains them, where there is nothing to learn; else None.
    """

    count: int
    where: str
    class_names: tuple[str, ...] = ()
    column_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    notes_of_training: tuple[str, ...] = ()
    is_text: bool = False
    no_training: DataError | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def in_file_order(self) -> bool:
        """Whether they are never shuffled."""
        return False

    @property
    def sample_names(self) -> Sequence[str]:
        """What each sample is called; none where they have no names."""
        return ()

    @property
    def is_fixed(self) -> bool:
        """Whether a sample is the same each time that it is asked for."""
        return False

    @property
    def are_files(self) -> bool:
        """Whether each is a file of its own, which may be broken."""
        return False

    @property
    def is_slow(self) -> bool:
        """Whether samples take time to get, so that a thread of their own gets them ahead."""
        return False

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Batch:
        """Inputs and labels by name, of the samples with these numbers, in that order.

        Raises:
            DataError: they cannot be read, or do not fit the step.
        """

    def of_step(self, numbers: np.ndarray, seed: int, step: int) -> Batch:
        """The samples of a step, which may be others than `take` gives; see `augment`."""
        return self.take(numbers)

    def untold(self) -> Iterable[str]:
        """What batches showed since this was last asked, and is to be said; each thing once."""
        return ()

    def telling(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches; warns of what they show, on the thread that asks for them."""
        for batch in batches:
            for note in self.untold():
                warn_caller(note)
            yield batch

    @abstractmethod
    def digest(self) -> str:
        """What the samples are, as a hash that is the same however they are stored."""

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The numbers of the samples in the order of an epoch."""
        if self.in_file_order:
            return np.arange(self.count)
        return np.random.default_rng([seed, epoch]).permutation(self.count)

    def parts(self, size: int) -> Iterator[Batch]:
        """All samples in order, so many at a time; the last part may have fewer."""
        starts = range(0, self.count, size)
        numbers = (np.arange(start, min(start + size, self.count)) for start in starts)
        return self.telling(ahead(self.take, numbers) if self.is_slow else map(self.take, numbers))


@dataclass(frozen=True)
class Wrapped(Source):
    """The samples of another source, in another form; what is known of them is the other's.

    Attributes:
        source: the other one.
    """

    source: Source

    @property
    def count(self) -> int:  # type: ignore[override]
        """See `Source`."""
        return self.source.count

    @property
    def where(self) -> str:  # type: ignore[override]
        """See `Source`."""
        return self.source.where

    @property
    def class_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """See `Source`."""
        return self.source.class_names

    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        """See `Source`."""
        return self.source.column_names

    @property
    def is_text(self) -> bool:  # type: ignore[override]
        """See `Source`."""
        return self.source.is_text

    @property
    def no_training(self) -> DataError | None:  # type: ignore[override]
        """See `Source`."""
        return self.source.no_training

    @property
    def in_file_order(self) -> bool:
        """See `Source.in_file_order`."""
        return self.source.in_file_order

    def untold(self) -> Iterable[str]:
        """See `Source.untold`."""
        return self.source.untold()

    def digest(self) -> str:
        """See `Source.digest`: of the samples themselves, so that a run is the same one."""
        return self.source.digest()


def notes_of(source: Source, options: ReadOptions, *, is_trained: bool) -> tuple[str, ...]:
    """What is to be said of samples that were read so."""
    notes = [*source.notes, *(source.notes_of_training if is_trained else ())]
    if options.of_text and not source.is_text:
        what = "tokenizer, end token and packing change nothing of it"
        notes.append(f"{source.where}: it has no text: {what}")
    if options.skip_broken and not source.are_files:
        what = "nothing of it is left out for being broken"
        notes.append(f"{source.where}: it is not a folder of images: {what}")
    return tuple(notes)


@dataclass
class Stream:
    """The batches of a run over a source.

    Attributes:
        source: of the samples.
        batch: samples of a step.
        seed: of the order.

    Raises:
        DataError: there is nothing to learn, or there are fewer samples than a step takes.
    """

    source: Source
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.source.no_training:
            raise self.source.no_training
        if len(self.source) < self.batch:
            raise DataError(
                f"the data holds {len(self.source)} samples; a step takes {self.batch}",
                where=self.source.where,
                hint=f"provide more, or compile with a --batch of at most {len(self.source)}",
            )
        # Two epochs may meet in a batch.
        self._of_epoch = lru_cache(2)(lambda epoch: self.source.order(self.seed, epoch))

    @property
    def class_names(self) -> tuple[str, ...]:
        """See `Named`."""
        return self.source.class_names

    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]:
        """See `Named`."""
        return self.source.column_names

    def steps_of(self, epochs: int) -> int:
        """Steps up to the end of so many epochs: the whole batches in them."""
        return epochs * len(self.source) // self.batch

    def left_of(self, epochs: int) -> int:
        """Samples of so many epochs that fill no batch, at the end of the last one."""
        return epochs * len(self.source) % self.batch

    def epochs_done(self, step: int) -> int:
        """Epochs whose last step is taken after so many steps."""
        # The most e with e * count // batch <= step.
        return ((step + 1) * self.batch - 1) // len(self.source)

    def epoch_ends(self, step: int) -> bool:
        """Whether an epoch has its last step there."""
        return step > 0 and self.epochs_done(step) > self.epochs_done(step - 1)

    def numbers(self, step: int) -> np.ndarray:
        """The samples of the step with that number, from 0."""
        count, first = len(self.source), step * self.batch
        found, need = [], self.batch
        while need:
            epoch, start = divmod(first, count)
            found.append(self._of_epoch(epoch)[start : start + need])
            first, need = first + len(found[-1]), need - len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def segment(self, step: int, most: int) -> Iterator[Batch]:
        """The batches after so many steps: at most so many, none behind the end of an epoch."""
        end = min(self.steps_of(self.epochs_done(step) + 1), step + most)
        if self.source.is_slow:
            return self.source.telling(ahead(self._batch, range(step, end)))
        return self.source.telling(map(self._batch, range(step, end)))

    def batches(self, start: int) -> Iterator[Batch]:
        """The batches of all steps from `start` on, without end."""
        return map(self._batch, count(start))

    def _batch(self, step: int) -> Batch:
        return self.source.of_step(self.numbers(step), self.seed, step)
