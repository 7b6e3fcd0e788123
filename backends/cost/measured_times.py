"""Measured times of products' calls, and how far a model of the target is from them.

A model may be wrong about a target as a whole: its clocks, its memory, how well threads share work.
Calls that were measured would then be cheap or dear beside all those that were not. So the model's
times of these are multiplied by the ratio of measured to modelled times of measured calls: by the
median of their own family of products where enough of it is known, since families are what a model
errs about, and by that of all measured calls elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

# Workloads that the factor of a family is the median of, at least: one alone may be far off.
_ENOUGH = 3


@dataclass(frozen=True)
class Measured:
    """Times of one workload. Seconds are of a call, times the threads that it keeps busy.

    Attributes:
        usual: of the usual kernel, with default decisions.
        told: of the kernel with the choice that records give, if they give one.
        modelled: of the first one, by the model of the target.
    """

    usual: float
    told: float
    modelled: float


def family_in(workload: str) -> str:
    """The family of products that a workload, as text, is of; see `workload.py`."""
    return workload.partition("(")[0]


@dataclass(frozen=True)
class MeasuredTimes:
    """Measured times of calls on a target.

    Attributes:
        known: times by the text of a workload.
        factors: what the model's times are multiplied by, for each family that enough is known of.
        factor: for all else.
    """

    known: Mapping[str, Measured] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    factor: float = 1.0

    def seconds(self, workload: str, *, is_tuned: bool) -> float | None:
        """Returns the measured time of a call, or None where it was not measured."""
        found = self.known.get(workload)
        if found is None:
            return None
        return found.told if is_tuned else found.usual

    def factor_of(self, workload: str) -> float:
        """Returns the factor for the model's time of a call that was not measured."""
        return self.factors.get(family_in(workload), self.factor)


def measured_times(known: Mapping[str, Measured]) -> MeasuredTimes:
    """Times with the factors that follow from them."""
    ratios: dict[str, list[float]] = {}
    for workload, times in known.items():
        ratios.setdefault(family_in(workload), []).append(times.usual / times.modelled)
    every = [ratio for those in ratios.values() for ratio in those]
    factors = {name: median(those) for name, those in ratios.items() if len(those) >= _ENOUGH}
    return MeasuredTimes(known, factors, median(every) if every else 1.0)


# Where nothing was measured, the model's times are used as they are.
NOTHING = MeasuredTimes()
