"""The search for a kernel's choices: which are tried, in which order, until when; and sampling."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.autoschedule.tuning.measure import MeasureConfig, in_turns, is_hopeless, wrong
from odtc.autoschedule.tuning.record import typical
from odtc.autoschedule.tuning.scheduler import Progress, next_tasks, seconds_of
from odtc.autoschedule.tuning.search import BATCH, search
from odtc.backends.decisions import Choice
from tests.autoschedule.spaces import Space, gain_of


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
    config = MeasureConfig(least=5, most=15, spread=0.03, sample_seconds=0.004, most_seconds=1e9)
    steady, slower = fake_clock(itertools.repeat(1e-3)), fake_clock(itertools.repeat(2e-3))
    seconds, usual = in_turns(steady, slower, config)
    assert (seconds, usual) == ([1e-3] * 5, [2e-3] * 5)
    # Both are called as often in a sample: other processes take the core from both alike.
    assert steady.calls == slower.calls == [1, 4, 4, 4, 4, 4]
    wild = fake_clock(itertools.chain([1.0], (1.0 + n for n in range(99))))
    seconds, usual = in_turns(wild, fake_clock(itertools.repeat(1.0)), config)
    assert len(seconds) == len(usual) == 15
    now = iter(range(0, 1000, 10))
    short = MeasureConfig(least=5, most=15, spread=0.0, most_seconds=25)
    wild = fake_clock(1.0 + n for n in range(99))
    assert len(in_turns(wild, fake_clock(itertools.repeat(1.0)), short, lambda: next(now))[0]) == 7
    quick = fake_clock(itertools.repeat(1e-6))
    in_turns(quick, quick, config, calls=(3, 8))
    assert set(quick.calls) == {1, 8}
    long = fake_clock(itertools.repeat(1.0))
    in_turns(long, long, config, calls=(3, 8))
    assert set(long.calls) == {1, 3}


@pytest.mark.parametrize(
    ("gain", "bar", "samples"),
    [(0.5, 1.0, 1), (0.72, 1.0, 2), (0.99, 1.0, 5), (1.2, 1.3, 4), (1.2, 1.1, 15), (0.5, 0.0, 15)],
)
def test_what_is_far_from_the_best_is_measured_once(gain: float, bar: float, samples: int) -> None:
    """All samples of both are noisy, so that only the bar ends a measurement."""
    config = MeasureConfig(least=5, most=15, spread=0.0, most_seconds=1e9, bar=bar)
    seconds, usual = in_turns(
        fake_clock(itertools.cycle([1.0 / gain, 1.001 / gain])),
        fake_clock(itertools.cycle([1.0, 1.001])),
        config,
    )
    assert len(seconds) == len(usual) == samples


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=15), st.floats(0.5, 2))
def test_what_is_left_sooner_has_not_gained_enough(seconds: list[float], bar: float) -> None:
    if is_hopeless(seconds, [1.0] * len(seconds), bar):
        assert typical([1.0]) / typical(seconds) < bar


def test_values_that_are_wrong_are_told_even_where_they_are_no_numbers() -> None:
    wanted = np.array([1.0, -200.0], np.float32)
    assert wrong(wanted + np.float32(0.1), wanted, 1e-3) == ""
    assert "wrong by 0.05 of the largest" in wrong(wanted + np.float32(10), wanted, 1e-3)
    assert wrong(np.array([np.nan, -200.0]), wanted, 1e-3)
    assert wrong(np.array([np.inf, -200.0]), wanted, 1e-3)
    assert wrong(np.zeros(2), np.zeros(2), 1e-3) == ""
