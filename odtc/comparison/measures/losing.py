"""Where odtc is worse than a peer: by each thing that is measured, one table for all pages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odtc.comparison.outcome import Outcome
from odtc.comparison.results import Result, by_setting

# What rows do not have, and cannot be compared.
ABSENT = "Energy is in no row: no machine that these were measured on tells what a step takes."


@dataclass(frozen=True)
class Measure:
    """Something of which less is better.

    Attributes:
        name: what it is.
        unit: of `of`, as it is shown.
        of: its value for a result; None where it was not measured.
        ratio: a peer's value over odtc's; None where either is unknown.
    """

    name: str
    unit: str
    of: Callable[[Result], float | None]
    ratio: Callable[[Result], float | None]


@dataclass(frozen=True)
class Loss:
    """A peer that is better than odtc at a setting.

    Attributes:
        measure: by which it is.
        peer: its result.
        ratio: its value over odtc's, below 1.
    """

    measure: Measure
    peer: Result
    ratio: float


@dataclass(frozen=True)
class Failure:
    """A setting that odtc did not train, and the engines that did."""

    result: Result
    trained: tuple[str, ...]

    def others(self) -> str:
        """Who did, in words."""
        return ", ".join(self.trained) or "none of the others"


def _over_ours(of: Callable[[Result], float | None]) -> Callable[[Result], float | None]:
    """The ratio of a peer's value to odtc's in the same rounds."""

    def ratio(peer: Result) -> float | None:
        theirs, ours = of(peer), of(peer.own)
        return theirs / ours if theirs and ours else None

    return ratio


def _milliseconds(result: Result) -> float | None:
    return 1e3 * result.step.median if result.step else None


def _processor(result: Result) -> float | None:
    """Of one thread it is the time itself."""
    busy, step = result.cores, result.step
    return 1e3 * busy * step.median if result.setting.threads > 1 and busy and step else None


def _megabytes(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def _until_first(result: Result) -> float | None:
    prepared, loaded = result.prepare_seconds, result.load_seconds
    whole = result.outcome is Outcome.TRAINED
    return prepared + loaded if whole and prepared is not None and loaded is not None else None


def _net(result: Result) -> float | None:
    return _megabytes(result.net)


def _peak(result: Result) -> float | None:
    return _megabytes(result.peak)


MEASURES = (
    Measure(
        "time of a step", "ms", _milliseconds, lambda it: it.ratio.median if it.ratio else None
    ),
    Measure("processor time of a step, all threads", "ms", _processor, _over_ours(_processor)),
    Measure("memory, net of imports", "MB", _net, _over_ours(_net)),
    Measure("memory of the process in all", "MB", _peak, _over_ours(_peak)),
    Measure(
        "compiling and loading, until the first step", "s", _until_first, _over_ours(_until_first)
    ),
)


def losses_by(measure: Measure, results: Sequence[Result]) -> list[Loss]:
    """Peers that are better, the best first."""
    found = [Loss(measure, it, ratio) for it, ratio in compared_by(measure, results) if ratio < 1]
    return sorted(found, key=lambda each: each.ratio)


def compared_by(measure: Measure, results: Sequence[Result]) -> Iterator[tuple[Result, float]]:
    """Peers of which both sides are known, with their ratio."""
    for each in results:
        ratio = None if each.is_ours else measure.ratio(each)
        if ratio is not None:
            yield each, ratio


def failures_of(results: Sequence[Result]) -> Iterator[Failure]:
    """What odtc did not train, with or without a budget."""
    for _, group in by_setting(results):
        trained = [it.engine for it in group if it.outcome is Outcome.TRAINED]
        for each in group:
            if each.is_ours and each.outcome is not Outcome.TRAINED:
                yield Failure(each, tuple(trained))


def why_not_compared(result: Result) -> str:
    """Why a peer has no ratio, in a few words."""
    if result.outcome is not Outcome.TRAINED:
        return result.outcome.value
    if result.own.outcome is not Outcome.TRAINED:
        return f"odtc: {result.own.outcome.value}"
    return "not measured"
