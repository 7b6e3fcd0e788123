"""Measures kernels in turns with the usual one, until their times agree.

A time alone says little: clocks rise and sink, others use the machine. So each sample of a choice
is paired with one of the usual kernel, taken just before, and the result is how much faster the
choice is. The usual kernel is the reference for values, too. Drift, such as that of clocks, then
affects both alike, and other load only makes samples longer, never shorter: so the lower quartile
is what counts.

In a step a kernel never finds its operands in a near cache: other kernels ran since they were
written. So on a CPU caches are flushed before every call. With warm caches another kernel would be
best: SqueezeNet's products of one tap take up to twice as long with cold ones.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from odtc.autoschedule.tuning.build import KernelLibrary
from odtc.autoschedule.tuning.record import LEAST_GAIN, typical
from odtc.autoschedule.tuning.running import Kernel, KernelBench, Load, loading
from odtc.core.errors import UnsupportedError


@dataclass(frozen=True)
class MeasureConfig:
    """Options of a measurement.

    Attributes:
        least: samples of each, at least.
        most: at most.
        spread: gap of the fastest and the typical sample, over the latter, that is small enough.
        sample_seconds: that the calls of a sample take together, about.
        most_seconds: for each choice.
        tolerance: of a value, of the largest one.
        bar: gain to reach: a choice that seems to have less is given up early.
    """

    least: int = 5
    most: int = 15
    spread: float = 0.03
    sample_seconds: float = 0.001
    most_seconds: float = 1.0
    tolerance: float = 1e-3
    bar: float = 0.0


# Calls of a sample. Flushing caches takes longer than most kernels, and then each call is timed by
# itself and the median counts: other load does not hit most of so few calls.
_CALLS, _COLD_CALLS = (1, 1000), (3, 8)
# Options for a choice's first measurement, and for one that is to be kept.
FIRST = MeasureConfig()
AGAIN = MeasureConfig(least=15, most=40, spread=0.01, most_seconds=3.0, bar=LEAST_GAIN)
# The part of the bar that a choice must reach after its first sample, and its growth after each: a
# choice that takes twice as long shows at once, one that takes as long only after several.
_AT_FIRST, _MORE = 0.7, 0.075


@dataclass(frozen=True)
class MeasureResult:
    """The measurement of a choice.

    Attributes:
        seconds: of each sample, for a call.
        usual: of the usual kernel, in turns with those.
        reason: why there are none.
    """

    seconds: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class MeasureInput:
    """Kernels that compute the same.

    Attributes:
        usual: the usual kernel.
        others: choices.
        inputs: shape and dtype of each argument.
    """

    usual: KernelLibrary
    others: tuple[KernelLibrary, ...]
    inputs: tuple[tuple[tuple[int, ...], str], ...]


# Seconds of a call, by calling it a number of times.
Clock = Callable[[int], float]


def measure(
    bench: KernelBench, subject: MeasureInput, config: MeasureConfig
) -> list[MeasureResult]:
    """Measures each choice.

    Raises:
        DeviceError: the device is gone. What only fails to load or to run there is an outcome.
    """
    arrays = [_drawn(shape, dtype) for shape, dtype in subject.inputs]
    with ExitStack() as stack:
        load = stack.enter_context(loading(bench, subject.usual, arrays))
        try:
            usual = stack.enter_context(load(subject.usual))
            wanted = usual.value()
        except UnsupportedError as error:
            failed = MeasureResult(reason=f"the usual kernel: {error.what}")
            return [failed] * len(subject.others)
        return [_outcome(load, each, usual, wanted, config) for each in subject.others]


def _outcome(
    load: Load, library: KernelLibrary, usual: Kernel, wanted: np.ndarray, config: MeasureConfig
) -> MeasureResult:
    try:
        with load(library) as kernel:
            error = wrong(kernel.value(), wanted, config.tolerance)
            if error:
                return MeasureResult(reason=error)
            calls = _CALLS if library.program else _COLD_CALLS
            seconds, beside = in_turns(kernel.seconds, usual.seconds, config, calls=calls)
    except UnsupportedError as error:
        return MeasureResult(reason=error.what)
    return MeasureResult(tuple(seconds), tuple(beside))


def wrong(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """Describes how values differ from the usual kernel's; '' where they agree."""
    largest = float(np.abs(wanted).max(initial=0.0)) or 1.0
    difference = float(np.abs(found - wanted).max(initial=0.0)) / largest
    # Not the other way round: a comparison with NaN is false.
    if difference <= tolerance:
        return ""
    return f"a value is wrong by {difference:.2g} of the largest one; {tolerance:g} is allowed"


def in_turns(
    kernel: Clock,
    usual: Clock,
    config: MeasureConfig,
    now: Callable[[], float] = time.monotonic,
    *,
    calls: tuple[int, int] = _CALLS,
) -> tuple[list[float], list[float]]:
    """Samples of two kernels, in turns, until both are sure or a cap is met.

    Args:
        kernel: takes the time of one.
        usual: of the other one.
        config: how many samples, and of how long.
        now: the clock.
        calls: of a sample, at least and at most.
    """
    begin, (least, most) = now(), calls
    # As many calls of both: other processes take the core from the longer sample.
    count = max(least, min(most, round(config.sample_seconds / min(usual(1), kernel(1)))))
    seconds: list[float] = []
    beside: list[float] = []
    while len(seconds) < config.most:
        beside.append(usual(count))
        seconds.append(kernel(count))
        if is_hopeless(seconds, beside, config.bar):
            break
        if len(seconds) < config.least:
            continue
        if max(spread(seconds), spread(beside)) < config.spread:
            break
        if now() - begin > config.most_seconds:
            break
    return seconds, beside


def is_hopeless(seconds: Sequence[float], usual: Sequence[float], bar: float) -> bool:
    """Whether a choice will not reach the wanted gain, by its fastest sample.

    That gains at least as much as the typical one, by which it will be judged.
    """
    doubt = min(1.0, _AT_FIRST + _MORE * (len(seconds) - 1))
    return typical(usual) < doubt * bar * min(seconds)


def spread(samples: Sequence[float]) -> float:
    """Returns the gap between the fastest and the typical sample, relative to the latter."""
    return 1 - min(samples) / typical(samples)


def _drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random numbers; zeros where they are indices, so that none is beyond what it counts."""
    if "float" not in dtype:
        return np.zeros(shape, dtype)
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape, np.float32).astype(dtype).reshape(shape)
