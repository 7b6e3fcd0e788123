"""The batches of a run, up to the end of each epoch.

A source says how many samples it has, so that its batches can be told by their number alone:
`odtc.runtime_rpc.data.source.Stream`. What is only gone through, as a DataLoader, tells its end
when it comes. Its samples are cut into the batches of the step; what is left of a pass comes before
the next one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import Place, take
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.fitting.taking import Taking
from odtc.runtime_rpc.data.objects.indexed import class_names_in
from odtc.runtime_rpc.data.objects.pairing import Pairing
from odtc.runtime_rpc.data.source import Arrays, Batch, Stream
from odtc.runtime_rpc.data.tables.ordering import Ordering
from odtc.runtime_rpc.feed.batches import count_samples, named_arrays
from odtc.runtime_rpc.feed.calling import SEVERAL, pairs
from odtc.runtime_rpc.lengths.joining import Joining

_PAIRS = (
    "each batch is a pair (x, y); all samples at once are a tuple (x, y) of two arrays: "
    f"(numpy.asarray(x), numpy.asarray(y)){SEVERAL}"
)


class Feed(Protocol):
    """The batches of a run.

    Attributes:
        class_names: see `Named`.
        column_names: see `Named`.
    """

    @property
    def class_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102

    def segment(self, step: int, most: int) -> Iterator[Batch]:
        """The batches after so many steps: at most so many, none behind the end of an epoch."""
        ...

    def epoch_ends(self, step: int) -> bool:
        """Whether an epoch has its last step there; asked of steps whose batches were taken."""
        ...

    def epochs_done(self, step: int) -> int:
        """Epochs whose last step is taken after so many steps."""
        ...

    def steps_of(self, epochs: int) -> int | None:
        """Steps up to the end of so many epochs; None where nobody knows."""
        ...


@dataclass
class Passes:
    """Batches of what is gone through again and again.

    Attributes:
        data: gives pairs of input and label, or mappings with both, of any number of samples, in
            each pass.
        manifest: of the step.
        joining: makes one of batches.
        begin: is told the number of each pass before it, to set its order.
        columns: names of those of each input, by which those of DataFrames are taken; where there
            are none, those of the first DataFrame are.
        before: names of the columns of the run before, whose weights are trained on: the same in
            another order are taken in that one.
        measured: names of the columns of a validation that was read before the first batch.
        ends: the steps at which passes ended so far.
    """

    where = "data"

    data: Iterable[Any]
    manifest: Manifest
    joining: Joining
    begin: Callable[[int], None] = lambda _: None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    measured: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at = 0
        # Samples of the pass that ended last which fill no batch.
        self.left = 0
        self._as_pair = Pairing(self.manifest)
        inputs = self.manifest.fed(Role.INPUT)
        self._ordering = Ordering(inputs)
        self._taking = Taking(self._fed.values(), self.where)
        self._batches = self._all()

    def segment(self, step: int, most: int) -> Iterator[Batch]:
        """See `Feed.segment`. What was taken before is gone through again where a run goes on."""
        if step < self._at:
            self.ends.clear()
            self._at, self._batches = 0, self._all()
        for batch in self._batches:
            self._at += 1
            if self._at > step:
                most -= 1
                yield batch
                if not most or self.epoch_ends(self._at):
                    return

    def epoch_ends(self, step: int) -> bool:
        """See `Feed.epoch_ends`."""
        self._reach(step)
        return step in self.ends

    def epochs_done(self, step: int) -> int:
        """See `Feed.epochs_done`."""
        self._reach(step)
        return sum(end <= step for end in self.ends)

    def steps_of(self, epochs: int) -> int | None:
        """See `Feed.steps_of`."""
        return None

    def expected_steps(self, epochs: int) -> int | None:
        """Steps of so many epochs, by what a list holds or a DataLoader says; None of others."""
        if isinstance(self.data, list | tuple):
            samples = sum(self._samples(batch) for batch in self.one_pass())
        elif (told := _samples_told(self.data)) is not None:
            samples = told
        else:
            return None
        return samples * epochs // self.manifest.batch

    def one_pass(self) -> Iterator[Batch]:
        """The arrays of one pass, as they come."""
        for x, y in pairs(self.data, self._as_pair, _PAIRS):
            self._ordering.look_at_rows(x, y)
            yield self._arrays(Role.INPUT, x), self._arrays(Role.LABEL, y)

    def _reach(self, step: int) -> None:
        """Goes through what a run took before, where it is taken up."""
        while self._at < step:
            next(self._batches)
            self._at += 1

    def _all(self) -> Iterator[Batch]:
        number, taken, rest = 0, 0, None
        while True:
            self.begin(number)
            before, waiting = taken, None
            for part in pairs(self.data, self._as_pair, _PAIRS):
                rest = self._joined(rest, part)
                while (cut := self._cut(rest)) is not None:
                    # One is held back: the last of a pass is known when the pass is over.
                    if waiting is not None:
                        yield waiting
                    waiting, rest = cut
                    taken += 1
            if waiting is None:
                raise DataError(
                    f"the data yields no batch of {self.manifest.batch} samples",
                    where="data",
                    hint="give something that can be iterated again, such as a list or a "
                    "DataLoader, not a generator that is used up"
                    if before
                    else "provide more samples",
                )
            self.left = self._samples(rest) if rest else 0
            self.ends.append(taken)
            yield waiting
            number += 1

    def _joined(self, rest: Batch | None, part: tuple[Any, Any]) -> Batch:
        self._ordering.look_at_rows(*part)
        fed = self._arrays(Role.INPUT, part[0]), self._arrays(Role.LABEL, part[1])
        now = self._taking(fed[0]), self._taking(fed[1])
        for note in self._taking.untold():
            warn_caller(note)
        if rest is None or not self._samples(rest):
            return now
        # What is one for all samples is that of the batch that comes.
        held = {name: array for name, array in _flat(rest).items() if self._places[name]}
        new = _flat(now)
        joined = {**new, **self.joining([held, {name: new[name] for name in held}])}
        return {name: joined[name] for name in now[0]}, {name: joined[name] for name in now[1]}

    def _arrays(self, role: Role, fed: Any) -> Arrays:
        names = [item.spec.name for item in self.manifest.fed(role)]
        given: Any = {} if fed is None else fed
        if isinstance(fed, list | tuple) and len(names) > 1:
            given = dict(zip(names, fed, strict=False))
        if role is Role.INPUT:
            given = self._ordering(given, lambda: self.columns, self.before, self.measured)
        return named_arrays(given, names, role.value, self.manifest.bound)

    def _cut(self, held: Batch) -> tuple[Batch, Batch] | None:
        """The first batch of what is held, and the rest; None where there is none."""
        batch, samples = self.manifest.batch, self._samples(held)
        if samples < batch:
            return None
        if samples == batch:
            return held, ({}, {})
        first, rest = slice(batch), slice(batch, None)
        return self._taken(held, first), self._taken(held, rest)

    def _taken(self, held: Batch, samples: slice) -> Batch:
        return tuple(  # type: ignore[return-value]
            {
                name: take(array, place, samples) if (place := self._places[name]) else array
                for name, array in arrays.items()
            }
            for arrays in held
        )

    def _samples(self, held: Batch) -> int:
        arrays = {**held[0], **held[1]}
        cut = {
            item: arrays[name] for name, item in self._fed.items() if name in arrays and item.place
        }
        return count_samples(cut, "data") if cut else (self.manifest.batch if arrays else 0)

    @property
    def class_names(self) -> tuple[str, ...]:
        """See `Named`."""
        return class_names_in(self.data, self.manifest.labels)

    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]:
        """See `Named`. What is no list is asked for no batch ahead of its time."""
        if isinstance(self.data, list | tuple) and not self._ordering.names:
            for x, _ in pairs(self.data[:1], self._as_pair, _PAIRS):
                self._arrays(Role.INPUT, x)
        names = self._ordering.names or self.columns
        return {name: tuple(each) for name, each in names.items()}

    @property
    def _fed(self) -> dict[str, Argument]:
        items = (*self.manifest.fed(Role.INPUT), *self.manifest.labels)
        return {item.spec.name: item for item in items}

    @property
    def _places(self) -> dict[str, Place | None]:
        return {name: item.place for name, item in self._fed.items()}


def _flat(batch: Batch) -> Arrays:
    """Inputs and labels, which have names of their own."""
    return {**batch[0], **batch[1]}


def _samples_told(loader: Any) -> int | None:
    """Samples of a pass over a DataLoader; None where it does not say."""
    try:
        samples, batch = len(loader.sampler), int(loader.batch_size)
    except (AttributeError, TypeError):
        return None
    return samples - samples % batch if loader.drop_last else samples


def left_text(feed: Stream, left: int) -> str:
    """What is said of samples that fill no batch."""
    return _left(f"{left} of {len(feed.source)} samples", feed.batch)


def left_of_passes(feed: Passes) -> str:
    """The same at the end of a run over what is gone through; empty where none are left."""
    return _left(f"{feed.left} samples", feed.manifest.batch) if feed.left else ""


def _left(samples: str, batch: int) -> str:
    return (
        f"the last {samples} of the last epoch fill no batch of {batch}: no step takes them; those "
        "of other epochs go with the next one"
    )
