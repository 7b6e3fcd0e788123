"""Tunes tasks: proposes choices, has them measured and records them, until it no longer pays.

    tasks ─scheduler→ wave ─search→ choices ─measurer→ outcomes ─→ records ─→ scheduler ...

All but the measurer is a pure function of what was measured, and all that was measured is in the
database. So a run after Ctrl-C or a crash begins at the start, and is at once where the last
one was: what has a record is not measured a second time.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from odtc.autoschedule.tuning import database
from odtc.autoschedule.tuning.measure import AGAIN, FIRST, MeasureConfig, MeasureResult
from odtc.autoschedule.tuning.record import LEAST_GAIN, Record, TuningPlace, frozen, typical
from odtc.autoschedule.tuning.scheduler import Progress, next_tasks, seconds_of
from odtc.autoschedule.tuning.search import BETTER, Best, KernelDraft, search
from odtc.autoschedule.tuning.tasks import TuningTask, Writer
from odtc.backends.decisions import Choice

# Drafts of a task that are cached, and its best choices that are measured again in the end: of many
# that were measured once, the best one was often lucky.
_DRAFTS, _FINALISTS = 256, 3


@dataclass(frozen=True)
class Job:
    """Choices of one task that are measured together.

    Attributes:
        task: its number.
        choices: of it.
        config: how they are measured.
    """

    task: int
    choices: tuple[Choice, ...]
    config: MeasureConfig


class Measurer(Protocol):
    """Builds and measures kernels."""

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[MeasureResult]]]:
        """Numbers of jobs with the outcomes of their choices, as they come."""
        ...


@dataclass(frozen=True)
class TuningLimits:
    """When to stop, if there is still something to win.

    Attributes:
        seconds: of this run.
        trials: of all runs that the database knows.
    """

    seconds: float = float("inf")
    trials: int = 1 << 62


@dataclass(frozen=True)
class TuningState:
    """The state of a tuning run, for progress and summaries.

    Attributes:
        tasks: progress of each.
        measured: trials of this run.
        failed: of these, those without times.
        known: trials that the database knew.
        again: choices that this run measured again, longer, before they were kept or not.
        elapsed: seconds of this run.
        share: part of the step that the tasks are.
        why: reason why it stopped; '' while it runs.
    """

    tasks: Sequence[Progress]
    measured: int
    failed: int
    known: int
    again: int
    elapsed: float
    share: float
    why: str = ""

    @property
    def rate(self) -> float:
        """Choices that were measured in a minute of this run."""
        return 60 * (self.measured + self.again) / self.elapsed if self.elapsed else 0.0

    @property
    def step(self) -> float:
        """Time of the step, by what was measured, over that before."""
        before = sum(seconds_of([dataclasses.replace(task, gain=1.0) for task in self.tasks]))
        now = sum(seconds_of(self.tasks))
        return 1 - self.share * (1 - now / before) if before else 1.0


class Tuning:
    """Tasks that are tuned.

    Args:
        tasks: of a step.
        writer: of their kernels.
        measurer: builds and measures.
        place: of the kernels, with the device.
        file: the database.
        width: tasks that are measured at once; another one may lead to other choices.
        watch: called with the state whenever it changes.
        now: the clock.
    """

    def __init__(
        self,
        tasks: Sequence[TuningTask],
        writer: Writer,
        measurer: Measurer,
        place: TuningPlace,
        file: Path,
        *,
        width: int = 4,
        watch: Callable[[TuningState], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if place.device is None:
            raise ValueError("a record needs a device")
        self._tasks, self._measurer, self._place, self._file = tasks, measurer, place, file
        self._device, self._width, self._watch, self._now = place.device, width, watch, now
        records = database.read(file).records
        self._records = {each.key: each for each in records}
        self._searches = [search(_remembered(writer, task)) for task in tasks]
        self._finalists: list[list[Best]] = [[] for _ in tasks]
        self._progress = [Progress(task.seconds) for task in tasks]
        self._measured = self._failed = self._known = self._again = 0
        self._begin = now()

    def run(self, limits: TuningLimits) -> TuningState:
        """Measures until it no longer pays, or a limit is reached; keeps better choices.

        Raises:
            OutputError: a record cannot be written.
            DeviceError: there is no device left.
        """
        self._begin = self._now()
        share = sum(task.share for task in self._tasks)
        waiting: dict[int, list[Choice]] = {}
        while not (why := self._why(limits)):
            wave = next_tasks(self._progress, share, self._width)
            if not wave:
                why = "what is left to win is below 1 % of the step"
                break
            for number in wave:
                if number not in waiting:
                    waiting[number] = self._first(number)
            jobs = [Job(n, tuple(waiting[n]), self._config(n)) for n in wave if waiting[n]]
            for job, records in zip(jobs, self._measure(jobs), strict=True):
                waiting[job.task] = self._take_up(job.task, records)
            self._watch(self._state(share))
        self._keep()
        state = self._state(share, why)
        self._watch(state)
        return state

    def _first(self, number: int) -> list[Choice]:
        """Returns a task's first choices to try; generated when its turn comes, if ever."""
        choices = next(self._searches[number], [])
        self._progress[number].is_over = not choices
        return choices

    def _config(self, number: int) -> MeasureConfig:
        """Returns how to measure a task's choices: stops early at one that is no better."""
        return dataclasses.replace(FIRST, bar=BETTER * self._progress[number].gain)

    def _why(self, limits: TuningLimits) -> str:
        if self._now() - self._begin >= limits.seconds:
            return "the time is over"
        if self._measured + self._known >= limits.trials:
            return "all trials are done"
        return ""

    def _take_up(self, number: int, records: Sequence[Record]) -> list[Choice]:
        """Sends measurements to the search of a task; returns its next proposals."""
        gains = [record.gain for record in records]
        usual = next((typical(each.usual) for each in records if each.usual), None)
        better = [Best(each.choice, each.gain) for each in records if each.gain >= LEAST_GAIN]
        finalists = sorted([*self._finalists[number], *better], key=lambda each: -each.gain)
        self._finalists[number] = finalists[:_FINALISTS]
        calls, progress = self._tasks[number].calls, self._progress[number]
        in_step = None if usual is None else usual * calls
        progress.measured(gains, in_step, finalists[0].gain if finalists else 1.0)
        try:
            return self._searches[number].send(gains)
        except StopIteration:
            progress.is_over = True
            return []

    def _keep(self) -> None:
        """Measures the best choices again, longer, and keeps those that are better still."""
        jobs = [
            Job(number, tuple(each.choice for each in finalists), AGAIN)
            for number, finalists in enumerate(self._finalists)
            if finalists
        ]
        for progress in self._progress:
            progress.gain = 1.0
        for job, records in zip(jobs, self._measure(jobs, kept=True), strict=True):
            better = [record.gain for record in records if record.is_better]
            self._progress[job.task].gain = max(better, default=1.0)

    def _measure(self, jobs: Sequence[Job], *, kept: bool = False) -> list[list[Record]]:
        """A record of each choice of each job: those that there are, and new ones."""
        found: dict[tuple[int, int], Record] = {}
        left: list[tuple[int, Job]] = []
        for number, job in enumerate(jobs):
            blank = [self._blank(job.task, choice, kept) for choice in job.choices]
            known = {at: self._records.get(each.key) for at, each in enumerate(blank)}
            found |= {(number, at): record for at, record in known.items() if record}
            missing = tuple(job.choices[at] for at, record in known.items() if not record)
            if missing:
                left.append((number, dataclasses.replace(job, choices=missing)))
        self._known += 0 if kept else len(found)
        for which, outcomes in self._measurer.outcomes([job for _, job in left]):
            number, job = left[which]
            records = [
                dataclasses.replace(
                    self._blank(job.task, choice, kept),
                    seconds=outcome.seconds,
                    usual=outcome.usual,
                    reason=outcome.reason,
                    date=datetime.now(UTC).isoformat(timespec="seconds"),
                    modelled=self._tasks[job.task].modelled,
                )
                for choice, outcome in zip(job.choices, outcomes, strict=True)
            ]
            database.add(self._file, records)
            self._records |= {record.key: record for record in records}
            self._measured += 0 if kept else len(records)
            self._again += len(records) if kept else 0
            self._failed += sum(bool(record.reason) for record in records)
        return [
            [self._records[self._blank(job.task, choice, kept).key] for choice in job.choices]
            for job in jobs
        ]

    def _blank(self, task: int, choice: Choice, kept: bool) -> Record:
        place, told = self._place, dict(frozen(choice))
        workload = self._tasks[task].workload
        return Record(workload, place.target, self._device, place.odtc, place.tvm, told, kept=kept)

    def _state(self, share: float, why: str = "") -> TuningState:
        elapsed = self._now() - self._begin
        counts = (self._measured, self._failed, self._known, self._again)
        tasks = [dataclasses.replace(each) for each in self._progress]
        return TuningState(tasks, *counts, elapsed, share, why)


def _remembered(writer: Writer, task: TuningTask) -> Callable[[Choice], KernelDraft | None]:
    """Writes drafts of a task, each once."""

    @lru_cache(_DRAFTS)
    def write(choice: tuple) -> KernelDraft | None:
        return writer.draft(task.kernel, dict(choice))

    return lambda choice: write(frozen(choice))
