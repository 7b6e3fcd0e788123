"""What is tried, in which order, and when no more; and sessions that are killed and go on."""

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.autoschedule.tuning.database import read, tuned
from odtc.autoschedule.tuning.measure import Manner, Outcome, in_turns, wrong
from odtc.autoschedule.tuning.record import Device, Place, frozen
from odtc.autoschedule.tuning.scheduler import Progress, next_tasks, seconds_of
from odtc.autoschedule.tuning.search import BATCH, Draft, search
from odtc.autoschedule.tuning.tasks import Task
from odtc.autoschedule.tuning.tuning import Job, Limits, State, Tuning
from odtc.backends.decisions import Choice, Decisions

DEVICE = Device("a device", "a family")
PLACE = Place("a target", DEVICE, DEVICE.family, "0", "0")


@dataclass(frozen=True)
class Space:
    """Kernels of three decisions, of which the last one hangs on the first."""

    sizes: tuple[int, int, int] = (12, 6, 3)

    def draft(self, _: Any, choice: Choice) -> Draft | None:
        decisions = Decisions(choice)
        (tile,) = decisions.decide("tile", [(n,) for n in range(self.sizes[0])], (0,))
        (tasks,) = decisions.decide("tasks", [(n,) for n in range(self.sizes[1])], (0,))
        copy = 0
        if tile % 2:
            (copy,) = decisions.decide("copy", [(n,) for n in range(self.sizes[2])], (0,))
        # Two numbers of tasks make the same kernel.
        code = hash((tile, tasks // 2, copy))
        return None if decisions.unknown else Draft(decisions.made, code)


def gain_of(task: int | None, choice: Choice) -> float:
    """How good a choice is; some fail. Of no task all are the same."""
    if task is None:
        return 1.0
    number = random.Random(f"{task} {frozen(choice)}").random()
    return 0.0 if number < 0.1 else 0.7 + number * 0.8


def searched(space: Space, task: int | None) -> tuple[list[Choice], Choice, float]:
    """All that a search proposes, and what it ends with."""
    tried: list[Choice] = []
    search_ = search(lambda choice: space.draft(None, choice))
    gains: list[float] | None = None
    while True:
        try:
            batch = next(search_) if gains is None else search_.send(gains)
        except StopIteration as over:
            return tried, over.value.choice, over.value.gain
        assert 0 < len(batch) <= BATCH
        tried += batch
        gains = [gain_of(task, each) for each in batch]


@given(
    sizes=st.tuples(*[st.integers(1, 9)] * 3),
    task=st.integers(0, 1000),
)
def test_a_search_tries_no_kernel_twice_and_keeps_the_best(sizes: Any, task: int) -> None:
    space = Space(sizes)
    tried, choice, gain = searched(space, task)
    drafts = [space.draft(None, each) for each in [{}, *tried]]
    codes = [draft.code for draft in drafts if draft]
    assert len(codes) == len(set(codes)) == len(tried) + 1
    assert (tried, choice, gain) == searched(space, task)
    assert gain >= max(1.0, *(gain_of(task, each) for each in tried), 1.0) / 1.01
    assert gain == (gain_of(task, choice) if choice else 1.0)


def test_a_decision_is_left_alone_after_candidates_that_were_no_better() -> None:
    tried, *_ = searched(Space((60, 1, 1)), task=None)
    assert 8 <= len(tried) <= 12


def test_the_first_trials_are_of_all_decisions() -> None:
    tried, *_ = searched(Space((12, 6, 1)), task=None)
    assert {name for choice in tried[:BATCH] for name in choice} == {"tile", "tasks"}


def test_trials_go_where_the_time_of_the_step_goes_until_too_little_is_left() -> None:
    tasks = [Progress(1.0), Progress(5.0), Progress(2.0)]
    assert next_tasks(tasks, 0.9, 2) == [1, 2]
    # Measured, the second is a short one; the others are scaled by the same.
    tasks[1].measured([1.0], 0.5, 1.0)
    assert seconds_of(tasks) == pytest.approx([0.1, 0.5, 0.2])
    # The model may be wrong about those that were never measured: they go first.
    assert next_tasks(tasks, 0.9, 3) == [2, 0, 1]
    for number in (0, 2):
        tasks[number].measured([1.0], 0.3, 1.0)
    assert next_tasks(tasks, 0.9, 3) == [1, 0, 2]
    # Without a better choice, another one of the same length goes before it.
    for _ in range(2):
        tasks[1].measured([0.9], 0.5, 1.0)
    assert next_tasks(tasks, 0.9, 3)[-1] == 1
    tasks[0].is_over = tasks[2].is_over = True
    assert next_tasks(tasks, 0.9, 3) == []


def test_what_is_a_small_part_of_a_step_is_not_worth_a_trial() -> None:
    assert next_tasks([Progress(1.0)], 0.03, 1) == [0]
    assert next_tasks([Progress(1.0)], 0.01, 1) == []
    # What was measured may win less.
    assert next_tasks([Progress(1.0, usual=1.0, trials=4)], 0.9, 1) == [0]
    assert next_tasks([Progress(1.0, usual=1.0, trials=4)], 0.1, 1) == []


def test_a_step_without_tasks_is_over_at_once() -> None:
    assert next_tasks([], 0.0, 4) == []


def fake_clock(times: Iterator[float]) -> Any:
    calls: list[int] = []

    def clock(number: int) -> float:
        calls.append(number)
        return next(times)

    clock.calls = calls
    return clock


def test_samples_are_taken_in_turns_until_they_agree_or_a_cap_is_met() -> None:
    manner = Manner(least=5, most=15, spread=0.03, sample_seconds=0.004, most_seconds=1e9)
    steady, slower = fake_clock(itertools.repeat(1e-3)), fake_clock(itertools.repeat(2e-3))
    seconds, usual = in_turns(steady, slower, manner)
    assert (seconds, usual) == ([1e-3] * 5, [2e-3] * 5)
    # Both are called as often in a sample: whoever takes the core takes it from both alike.
    assert steady.calls == slower.calls == [1, 4, 4, 4, 4, 4]
    wild = fake_clock(itertools.chain([1.0], (1.0 + n for n in range(99))))
    seconds, usual = in_turns(wild, fake_clock(itertools.repeat(1.0)), manner)
    assert len(seconds) == len(usual) == 15
    now = iter(range(0, 1000, 10))
    short = Manner(least=5, most=15, spread=0.0, most_seconds=25)
    wild = fake_clock(1.0 + n for n in range(99))
    assert len(in_turns(wild, fake_clock(itertools.repeat(1.0)), short, lambda: next(now))[0]) == 7
    quick = fake_clock(itertools.repeat(1e-6))
    in_turns(quick, quick, manner, calls=(3, 8))
    assert set(quick.calls) == {1, 8}
    long = fake_clock(itertools.repeat(1.0))
    in_turns(long, long, manner, calls=(3, 8))
    assert set(long.calls) == {1, 3}


def test_values_that_are_wrong_are_told_even_where_they_are_no_numbers() -> None:
    wanted = np.array([1.0, -200.0], np.float32)
    assert wrong(wanted + np.float32(0.1), wanted, 1e-3) == ""
    assert "wrong by 0.05 of the largest" in wrong(wanted + np.float32(10), wanted, 1e-3)
    assert wrong(np.array([np.nan, -200.0]), wanted, 1e-3)
    assert wrong(np.array([np.inf, -200.0]), wanted, 1e-3)
    assert wrong(np.zeros(2), np.zeros(2), 1e-3) == ""


class Deterministic:
    """A lab in which a choice takes what its name says, every time.

    Args:
        seconds: that a job takes.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.measured: list[tuple[int, Any, bool]] = []
        self._seconds = seconds

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[Outcome]]]:
        # They need not come in their order.
        for number, job in reversed(list(enumerate(jobs))):
            time.sleep(self._seconds)
            kept = job.manner.least > 5
            self.measured += [(job.task, frozen(choice), kept) for choice in job.choices]
            yield number, [self._outcome(job.task, choice) for choice in job.choices]

    def _outcome(self, task: int, choice: Choice) -> Outcome:
        gain = gain_of(task, choice)
        return Outcome((1.0 / gain,), (1.0,)) if gain else Outcome(reason="it fell over")


def tuning(file: Path, lab: Deterministic, watch: Any = lambda _: None) -> Tuning:
    tasks: Any = [Task(f"task {n}", None, (f"k{n}",), 1, 9.0 - n, (9.0 - n) / 50) for n in range(6)]  # type: ignore[arg-type]
    writer: Any = Space()
    return Tuning(tasks, writer, lab, PLACE, file, width=2, watch=watch)


def best_of(file: Path) -> dict[str, Any]:
    """What compile would take from a file."""
    return {
        name: frozen(r.choice) for name, (r, _) in tuned(read(file).records, PLACE).known.items()
    }


def test_a_session_ends_by_itself_and_keeps_what_is_better(tmp_path: Path) -> None:
    file, lab, states = tmp_path / "db", Deterministic(), list[State]()
    state = tuning(file, lab, states.append).run(Limits())
    assert state.why == "what is left to win is below 1 % of the step"
    records = read(file).records
    assert state.measured == sum(not record.kept for record in records) > 30
    assert any(record.reason == "it fell over" and not record.seconds for record in records)
    assert best_of(file)
    assert states[-1].step < states[0].step < 1
    assert len(lab.measured) == len(set(lab.measured)) == len(records)


class Lucky(Deterministic):
    """A lab in which the first choice of the first task seems to be ten times as fast, once."""

    lucky: Choice | None = None

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[Outcome]]]:
        for number, found in super().outcomes(jobs):
            job = jobs[number]
            if job.task == 0 and self.lucky is None:
                self.lucky, found[0] = job.choices[0], Outcome((0.1,), (1.0,))
            elif job.task == 0 and self.lucky in job.choices:
                found[job.choices.index(self.lucky)] = Outcome((1.0,), (1.0,))
            yield number, found


def test_behind_a_choice_that_was_lucky_once_another_one_is_kept(tmp_path: Path) -> None:
    lab = Lucky()
    state = tuning(tmp_path / "db", lab).run(Limits())
    kept = [r for r in read(tmp_path / "db").records if r.kept and r.workload == "task 0"]
    assert [r.is_better for r in kept if r.choice == lab.lucky] == [False]
    assert 1.02 <= state.tasks[0].gain == max(r.gain for r in kept) < 10


def test_the_same_command_again_measures_nothing(tmp_path: Path) -> None:
    file = tmp_path / "db"
    first = tuning(file, Deterministic()).run(Limits())
    again = Deterministic()
    second = tuning(file, again).run(Limits())
    assert again.measured == []
    assert (second.measured, second.known) == (0, first.measured)
    assert [task.gain for task in second.tasks] == [task.gain for task in first.tasks]


def test_limits_end_a_session_and_another_one_goes_on(tmp_path: Path) -> None:
    file, whole = tmp_path / "db", tmp_path / "whole"
    tuning(whole, Deterministic()).run(Limits())
    state = tuning(file, Deterministic()).run(Limits(trials=20))
    assert state.why == "all trials are done"
    assert 20 <= state.measured < 20 + 2 * BATCH
    clock = itertools.count()
    later = tuning(file, Deterministic())
    later._now = lambda: float(next(clock))
    assert later.run(Limits(seconds=4)).why == "the time is over"
    tuning(file, Deterministic()).run(Limits())
    # Choices that were kept on the way may be more, and those kept last are the same.
    assert best_of(file) == best_of(whole)


def _run(file: Path) -> None:
    tuning(file, Deterministic(0.002)).run(Limits())


def test_a_session_that_is_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    file, whole = tmp_path / "db", tmp_path / "whole"
    tuning(whole, Deterministic()).run(Limits())
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
