"""Sessions that end, are killed, go on or share a job, by a measurer that always measures alike."""

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from odtc.autoschedule.tuning.database import read, tuned
from odtc.autoschedule.tuning.measure import MeasureResult
from odtc.autoschedule.tuning.record import Device, TuningPlace, frozen
from odtc.autoschedule.tuning.search import BATCH
from odtc.autoschedule.tuning.tasks import TuningTask, part_of
from odtc.autoschedule.tuning.tuning import Job, Tuning, TuningLimits, TuningState
from odtc.backends.decisions import Choice
from tests.autoschedule.spaces import Space, gain_of
from tests.timed import figures

DEVICE = Device("a device", "a family")
PLACE = TuningPlace("a target", DEVICE, DEVICE.family, "0", "0")


class Deterministic:
    """A measurer by which a choice takes what its name says, every time.

    Args:
        seconds: that a job takes.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.measured: list[tuple[int, Any, bool]] = []
        self._seconds = seconds

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[MeasureResult]]]:
        # They need not come in their order.
        for number, job in reversed(list(enumerate(jobs))):
            time.sleep(self._seconds)
            kept = job.config.least > 5
            self.measured += [(job.task, frozen(choice), kept) for choice in job.choices]
            yield number, [self._outcome(job.task, choice) for choice in job.choices]

    def _outcome(self, task: int, choice: Choice) -> MeasureResult:
        gain = gain_of(task, choice)
        return (
            MeasureResult((1.0 / gain,), (1.0,)) if gain else MeasureResult(reason="it fell over")
        )


def tuning(
    file: Path, measurer: Deterministic, watch: Any = lambda _: None, part: tuple[int, int] = (1, 1)
) -> Tuning:
    tasks: Any = [
        TuningTask(f"task {n}", None, (f"k{n}",), 1, 9.0 - n, (9.0 - n) / 50) for n in range(6)
    ]  # type: ignore[arg-type]
    writer: Any = Space()
    return Tuning(part_of(tasks, *part), writer, measurer, PLACE, file, width=2, watch=watch)


def best_of(file: Path) -> dict[str, Any]:
    """Returns what compile would take from a file."""
    return {
        name: frozen(r.choice) for name, (r, _) in tuned(read(file).records, PLACE).known.items()
    }


def test_a_session_ends_by_itself_and_keeps_what_is_better(tmp_path: Path) -> None:
    file, measurer, states = tmp_path / "db", Deterministic(), list[TuningState]()
    state = tuning(file, measurer, states.append).run(TuningLimits())
    assert state.why == "what is left to win is below 1 % of the step"
    records = read(file).records
    assert state.measured == sum(not record.kept for record in records) > 30
    assert any(record.reason == "it fell over" and not record.seconds for record in records)
    assert best_of(file)
    assert states[-1].step < states[0].step < 1
    assert len(measurer.measured) == len(set(measurer.measured)) == len(records)


class Lucky(Deterministic):
    """A measurer by which the first choice of the first task seems ten times as fast, once."""

    lucky: Choice | None = None

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[MeasureResult]]]:
        for number, found in super().outcomes(jobs):
            job = jobs[number]
            if job.task == 0 and self.lucky is None:
                self.lucky, found[0] = job.choices[0], MeasureResult((0.1,), (1.0,))
            elif job.task == 0 and self.lucky in job.choices:
                found[job.choices.index(self.lucky)] = MeasureResult((1.0,), (1.0,))
            yield number, found


def test_behind_a_choice_that_was_lucky_once_another_one_is_kept(tmp_path: Path) -> None:
    measurer = Lucky()
    state = tuning(tmp_path / "db", measurer).run(TuningLimits())
    kept = [r for r in read(tmp_path / "db").records if r.kept and r.workload == "task 0"]
    assert [r.is_better for r in kept if r.choice == measurer.lucky] == [False]
    assert 1.02 <= state.tasks[0].gain == max(r.gain for r in kept) < 10


def test_the_same_command_again_measures_nothing(tmp_path: Path) -> None:
    file = tmp_path / "db"
    first = tuning(file, Deterministic()).run(TuningLimits())
    again = Deterministic()
    second = tuning(file, again).run(TuningLimits())
    assert again.measured == []
    assert (second.measured, second.known) == (0, first.measured)
    assert [task.gain for task in second.tasks] == [task.gain for task in first.tasks]


def test_limits_end_a_session_and_another_one_goes_on(tmp_path: Path) -> None:
    file, whole = tmp_path / "db", tmp_path / "whole"
    tuning(whole, Deterministic()).run(TuningLimits())
    state = tuning(file, Deterministic()).run(TuningLimits(trials=20))
    assert state.why == "all trials are done"
    assert 20 <= state.measured < 20 + 2 * BATCH
    clock = itertools.count()
    later = tuning(file, Deterministic())
    later._now = lambda: float(next(clock))
    assert later.run(TuningLimits(seconds=4)).why == "the time is over"
    tuning(file, Deterministic()).run(TuningLimits())
    # Choices that were kept on the way may be more, and those kept last are the same.
    assert best_of(file) == best_of(whole)


# Seconds of a measurement that take longer than all that is around it.
_LONG = 0.25


def _host(file: Path, number: int, devices: int, seconds: float) -> None:
    tuning(file, Deterministic(seconds / devices), part=(number, 2)).run(TuningLimits())


def _shared(folder: Path, seconds: float) -> float:
    """A job of trials of so many seconds, by one host and by two; how many times as fast."""
    alone, both = folder / "alone", folder / "both"
    begin = time.monotonic()
    tuning(alone, Deterministic(seconds)).run(TuningLimits())
    rate = len(read(alone).records) / (time.monotonic() - begin)
    context, begin = multiprocessing.get_context("fork"), time.monotonic()
    parts = ((both, number, devices, seconds) for number, devices in ((1, 2), (2, 1)))
    hosts = [context.Process(target=_host, args=part) for part in parts]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    taken, records = time.monotonic() - begin, read(both).records
    assert len({record.key for record in records}) == len(records)
    assert best_of(both).keys() == best_of(alone).keys()
    return len(records) / taken / rate


def test_two_hosts_with_three_devices_share_a_job(tmp_path: Path) -> None:
    _shared(tmp_path, 0.002)


@pytest.mark.timed
def test_two_hosts_are_nearly_twice_as_fast(tmp_path: Path) -> None:
    found = figures(_shared(new(tmp_path, n), _LONG) for n in range(3))
    assert found.median >= 1.8, found


def new(folder: Path, number: int) -> Path:
    """A folder of that number."""
    made = folder / str(number)
    made.mkdir()
    return made


def _run(file: Path) -> None:
    tuning(file, Deterministic(0.002)).run(TuningLimits())


def test_a_session_that_is_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    file, whole = tmp_path / "db", tmp_path / "whole"
    tuning(whole, Deterministic()).run(TuningLimits())
    context, rng = multiprocessing.get_context("fork"), random.Random(7)
    kills = 0
    while kills < 20:
        before = read(file).records
        session = context.Process(target=_run, args=(file,))
        session.start()
        session.join(rng.uniform(0.001, 0.03))
        if session.exitcode is None:
            os.kill(session.pid or 0, signal.SIGKILL)
            kills += 1
        session.join()
        found = read(file)
        assert found.records[: len(before)] == before
        if session.exitcode == 0:
            # It came to its end: the next ones have nothing left to do, or to lose.
            file.write_bytes(file.read_bytes()[: rng.randrange(len(file.read_bytes()))])
    _run(file)
    found, wanted = read(file), read(whole)
    keys = [record.key for record in found.records]
    assert len(keys) == len(set(keys))
    assert set(keys) == {record.key for record in wanted.records}
    assert best_of(file) == best_of(whole)
