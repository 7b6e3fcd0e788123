"""Scales of axes: a place in percent, and marks at round numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# From that ratio on, values are shown on a logarithmic axis.
_WIDE = 12.0


class Scale(Protocol):
    """A map from a value to a place."""

    def at(self, value: float) -> float:
        """The place, from 0 to 100."""
        ...

    def marks(self) -> list[float]:
        """Round values."""
        ...

    def text(self, mark: float) -> str:
        """What stands at a mark."""
        ...


@dataclass(frozen=True)
class Lanes:
    """Lanes above each other, the first at the top: that of number n lies from n to n + 1."""

    names: Sequence[str]

    def at(self, value: float) -> float:
        """The place, from 0 to 100."""
        return 100 - 100 * value / len(self.names)

    def marks(self) -> list[float]:
        """The middle of each."""
        return [number + 0.5 for number in range(len(self.names))]

    def text(self, mark: float) -> str:
        """The name of the lane."""
        return self.names[int(mark)]


@dataclass(frozen=True)
class Linear:
    """A linear scale from `low` to `high`, with marks at `about` so many places."""

    high: float
    low: float = 0.0
    about: int = 8

    def at(self, value: float) -> float:
        """The place, from 0 to 100."""
        return 100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def marks(self) -> list[float]:
        """Values at round distances from `low`, which is one: it may not be 0."""
        least = (self.high - self.low) / self.about
        power = 10.0 ** math.floor(math.log10(least))
        step = next(each * power for each in (1, 2, 5, 10) if each * power >= least)
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        return [float(f"{self.low + number * step:.10g}") for number in range(count)]

    def text(self, mark: float) -> str:
        """The value."""
        return short(mark)


@dataclass(frozen=True)
class Log:
    """A logarithmic scale from `low` to `high`, both positive."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place, from 0 to 100."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * min(1.0, max(0.0, share))

    def marks(self) -> list[float]:
        """Powers of ten, with their twofold and fivefold where there are few."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1, 2, 5) if len(powers) <= 4 else (1,)
        marks = [factor * 10.0**power for power in powers for factor in factors]
        return [mark for mark in marks if self.low <= mark <= self.high]

    def text(self, mark: float) -> str:
        """The value."""
        return short(mark)


def scale_of(values: Sequence[float]) -> Scale:
    """A scale that shows all of these positive values, linear where that shows the least one."""
    low, high = min(values), max(values)
    return Log(low / 1.3, high * 1.15) if high > _WIDE * low else Linear(high * 1.06)


def around_one(values: Sequence[float]) -> Log:
    """A scale of ratios that has 1 inside."""
    return Log(min(*values, 0.8) / 1.1, max(*values, 1.25) * 1.1)


def short(value: float) -> str:
    """A mark's text: `0.5`, `20`, `3k`."""
    if value >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"


_UNITS = ("B", "KiB", "MiB", "GiB")


def unit_of(count: float) -> tuple[int, str]:
    """The unit that a number of bytes is best told in: its bytes and its name."""
    power = min(3, int(math.log(max(1, count), 1024)))
    return 1024**power, _UNITS[power]
