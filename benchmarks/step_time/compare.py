"""Parity first, then times in turns."""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.step_time.cases import StepCase
from benchmarks.step_time.engines import OURS, Make, TimedEngine
from odtc.comparison.measures.measure import Spread, busy_share, spread
from odtc.comparison.measures.parity import PARITY_STEPS, disagreement
from odtc.comparison.measures.workload import StepWork, training_work

PAUSE_SECONDS = 0.05


@dataclass
class Timing:
    """One engine on one case.

    Attributes:
        engine: its name.
        losses: of the first steps, before their updates.
        seconds: of each timed step, in order.
        skipped: why it was not timed; empty where it was.
    """

    engine: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    skipped: str = ""


@dataclass
class StepComparison:
    """All engines on one case.

    Attributes:
        model: name of the model.
        batch: samples in a step.
        threads: worker threads of each engine.
        lr: learning rate.
        work: arithmetic and least memory traffic of a step.
        busy: share of the cores that other programs kept busy, before and after.
        timings: of each engine; the first is odtc.
    """

    model: str
    batch: int
    threads: int
    lr: float
    work: StepWork
    busy: tuple[float, float]
    timings: list[Timing]

    @property
    def ours(self) -> Timing:
        """Of odtc."""
        return self.timings[0]

    @property
    def fastest_peer(self) -> Timing | None:
        """The peer with the least median; None where no peer was timed."""
        timed = [timing for timing in self.timings[1:] if timing.seconds]
        return min(timed, key=lambda timing: spread(timing.seconds).median, default=None)


def compare(
    case: StepCase,
    engines: Mapping[str, Make],
    steps: int,
    folder: Path,
    other: Container[str] = (),
) -> StepComparison:
    """Compares the losses of all engines, then times those that agree with the first, odtc.

    Args:
        case: what they train.
        engines: by name.
        steps: timed ones of each.
        folder: for their files.
        other: names of engines that may have other losses.
    """
    started = [start(name, make, case, folder) for name, make in engines.items()]
    timings = [timing for timing, _ in started]
    for timing in timings[1:]:
        if timing.engine in other:
            continue
        timing.skipped = timing.skipped or disagreement(timing.losses, timings[0].losses)
    before = busy_share()
    turns = [(t.seconds, engine) for t, engine in started if engine is not None and not t.skipped]
    for _ in range(steps):
        for seconds, engine in turns:
            seconds.append(timed_step(engine, case))
    busy = (before, busy_share())
    work = training_work(case.model, case.batch)
    return StepComparison(case.name, case.batch, case.threads, case.lr, work, busy, timings)


def start(name: str, make: Make, case: StepCase, folder: Path) -> tuple[Timing, TimedEngine | None]:
    """Makes an engine and takes its first steps; a peer that cannot says why."""
    timing = Timing(name)
    try:
        engine = make(case, folder)
        timing.losses = [float(engine.step(case.x, case.y)) for _ in range(PARITY_STEPS)]
    except Exception as error:  # a peer may fail in any way of its own
        if name == OURS:
            raise
        reason = (str(error).strip().splitlines() or [""])[0]
        timing.skipped = f"{type(error).__name__}: {reason}"[:200]
        return timing, None
    return timing, engine


def timed_step(engine: TimedEngine, case: StepCase) -> float:
    """Seconds of one step, after a pause and one step to warm up."""
    time.sleep(PAUSE_SECONDS)
    engine.step(case.x, case.y)
    begin = time.perf_counter()
    engine.step(case.x, case.y)
    return time.perf_counter() - begin


def ratio(peer: Timing, ours: Timing) -> Spread:
    """Time of the peer over time of odtc, turn by turn: above 1, odtc is the faster one."""
    return spread(ratios(peer, ours))


def ratios(peer: Timing, ours: Timing) -> list[float]:
    """The samples of `ratio`."""
    return [a / b for a, b in zip(peer.seconds, ours.seconds, strict=True)]


def geometric_means(comparisons: Sequence[StepComparison]) -> dict[int, tuple[float, int]]:
    """By number of threads: the geometric mean of the fastest peer's ratio, and of how many models.

    A model whose peers all failed is left out.
    """
    found: dict[int, list[float]] = {}
    for item in comparisons:
        peer = item.fastest_peer
        if peer is not None:
            found.setdefault(item.threads, []).append(ratio(peer, item.ours).median)
    return {n: (float(np.exp(np.log(each).mean())), len(each)) for n, each in found.items()}
