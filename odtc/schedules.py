"""Learning-rate schedules: functions of the number of updates before a step.

    schedule = odtc.schedules.Warmup(odtc.schedules.Cosine(0.1, steps=900), steps=100)
    trainer.step(x, y, lr=schedule(trainer.updates))

The learning rate is an argument of the step, so a schedule can change without recompiling. Each is
the closed form of one in `torch.optim.lr_scheduler`; after its end it keeps its last value.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from odtc.core.elsewhere.names import SCHEDULES as ELSEWHERE
from odtc.core.elsewhere.rows import said_of
from odtc.core.options.arguments import plainly_made, read_argument, read_fields, takes
from odtc.core.options.checked_options import (
    check_options,
    count,
    fraction,
    not_negative,
    parse_choice,
    positive,
    require_options,
)
from odtc.core.options.kinds import REAL, TEXT, kind, whole_from
from odtc.core.options.option_text import did_you_mean


def _schedule(value: Any) -> Any:
    if not isinstance(value, Schedule):
        raise TypeError
    return value


_UPDATES = whole_from(0)
# What no text gives, beside the options. Which rates there are the step says.
_FIELDS = {
    "lr": REAL,
    "then": kind(
        "schedule", "give a schedule, such as odtc.schedules.Cosine(0.1, steps=900)", _schedule
    ),
}


@dataclass(frozen=True)
class Schedule(ABC):
    """A function from the number of updates before a step to a learning rate.

    Raises:
        UsageError: an option is outside its bound.
    """

    name: ClassVar[str]
    # The option that is the number of a run's updates; empty where none is.
    length: ClassVar[str] = ""

    def __post_init__(self) -> None:
        own = {each.name for each in fields(self)}
        read_fields(self, {name: kind for name, kind in _FIELDS.items() if name in own})
        check_options(self)

    def __call__(self, updates: int) -> float:
        """The learning rate of the step.

        Raises:
            UsageError: it is not a number of updates.
        """
        return self._rate(read_argument(_UPDATES, updates, "updates", f"schedule {self.name}"))

    @abstractmethod
    def _rate(self, updates: int) -> float:
        """The learning rate after so many updates."""

    def first_step(self) -> int:
        """Updates before the first of its steps; 0 where it has none."""
        return 0


@plainly_made
@dataclass(frozen=True)
class Constant(Schedule):
    """The same learning rate at every step."""

    name: ClassVar[str] = "constant"
    lr: float

    def _rate(self, updates: int) -> float:
        return self.lr


@plainly_made
@dataclass(frozen=True)
class Step(Schedule):
    """The learning rate times `gamma` after every `every` updates (`StepLR`)."""

    name: ClassVar[str] = "step"
    lr: float
    every: int = count()
    gamma: float = positive(0.1)

    def _rate(self, updates: int) -> float:
        return self.lr * self.gamma ** (updates // self.every)

    def first_step(self) -> int:
        """See `Schedule.first_step`."""
        return self.every


@plainly_made
@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from `lr` to `minimum` (`CosineAnnealingLR`; Loshchilov and Hutter, 2017)."""

    name: ClassVar[str] = "cosine"
    length: ClassVar[str] = "steps"
    lr: float
    steps: int = count()
    minimum: float = not_negative(0.0)

    def _rate(self, updates: int) -> float:
        return _cosine(self.lr, self.minimum, updates / self.steps)


@plainly_made
@dataclass(frozen=True)
class OneCycle(Schedule):
    """Half a cosine up, and half a cosine down (`OneCycleLR`; Smith and Topin, 2018).

    The momentum is part of the compiled step, and is not cycled.

    Args:
        lr: maximum learning rate.
        steps: number of updates of the whole cycle.
        rise: fraction of the cycle in which the rate rises.
        start: divisor of the initial learning rate, `lr / start`.
        end: divisor of the final learning rate, `lr / start / end`.
    """

    name: ClassVar[str] = "one-cycle"
    length: ClassVar[str] = "steps"
    lr: float
    steps: int = count()
    rise: float = fraction(0.3)
    start: float = positive(25.0)
    end: float = positive(1e4)

    def _rate(self, updates: int) -> float:
        first = self.lr / self.start
        top = self.rise * self.steps - 1
        if updates <= top:
            return _cosine(first, self.lr, updates / top if top else 1.0)
        fall = self.steps - 1 - top
        down = (updates - top) / fall if fall > 0 else 1.0
        return _cosine(self.lr, first / self.end, down)


@plainly_made
@dataclass(frozen=True)
class Warmup(Schedule):
    """Linear warm-up to another schedule (`SequentialLR` of `LinearLR` and that schedule).

    Args:
        then: schedule that follows, starting at its own step 0.
        steps: number of updates of the warm-up.
        start: initial learning rate, as a fraction of the first one of `then`.
    """

    name: ClassVar[str] = "warmup"
    then: Schedule
    steps: int = count()
    start: float = fraction(0.0)

    def _rate(self, updates: int) -> float:
        if updates >= self.steps:
            return self.then(updates - self.steps)
        return self.then(0) * (self.start + (1 - self.start) * updates / self.steps)

    def first_step(self) -> int:
        """See `Schedule.first_step`."""
        first = self.then.first_step()
        return self.steps + first if first else 0


SCHEDULES: dict[str, type[Schedule]] = {
    kind.name: kind for kind in (Constant, Step, Cosine, OneCycle)
}


NAMES = [*(kind.__name__ for kind in (*SCHEDULES.values(), Warmup)), "Schedule", "parse_schedule"]


@takes("odtc.schedules.parse_schedule", text=TEXT, lr=REAL, updates=_UPDATES)
def parse_schedule(text: str, lr: float, updates: int) -> Schedule:
    """Reads `cosine` or `step{every=100,gamma=0.5}`.

    Args:
        text: text of the schedule.
        lr: initial learning rate of the schedule, or its maximum for `one-cycle`.
        updates: number of updates of the whole run; the default for schedules that take `steps`.

    Raises:
        UsageError: the text is malformed, or a schedule, an option or a value in it is not valid.
    """
    kind, options = parse_choice("schedule", text, SCHEDULES, "cosine or step{every=100,gamma=0.5}")
    if kind.length:  # a fact of the run
        options = {kind.length: updates} | options
    require_options(f"schedule {kind.name}", kind, options)
    return kind(lr, **options)  # type: ignore[call-arg]


def __getattr__(name: str) -> Any:
    said = said_of(name, ELSEWHERE) or did_you_mean(name, NAMES)
    raise AttributeError(
        f"module 'odtc.schedules' has no attribute {name!r}" + f"; {said.strip()}" * bool(said)
    )


def __dir__() -> list[str]:
    return NAMES


def _cosine(begin: float, end: float, share: float) -> float:
    """From `begin` at share 0 to `end` at share 1, and on."""
    return end + (begin - end) * (1 + math.cos(math.pi * min(share, 1.0))) / 2
