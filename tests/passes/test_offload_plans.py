"""Plans that store tensors: possible ones by the validator, never worse than without a storage, and
not better than the best of small drawn problems."""

import heapq
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import frontier, lowest_of
from odtc.passes.checkpoint.problem import Recomputation, Storage, plan_of
from odtc.passes.checkpoint.region import region_of
from odtc.passes.checkpoint.stage_program import StageProgram
from odtc.passes.checkpoint.validate import validate
from tests.passes.test_checkpoint import chain, drawn


@st.composite
def with_storage(draw: st.DrawFn, most: int) -> Recomputation:
    """A step, and a storage that is slower or faster than its tasks."""
    call, store, fetch = (draw(st.sampled_from([0.0, 0.1, 1.0, 3.0])) for _ in range(3))
    return replace(draw(drawn(most)), storage=Storage(call, store, fetch))


# Seconds, how many tasks have run first, what is alive, and what is stored.
_State = tuple[float, int, frozenset[int], frozenset[int]]


def fastest_within(problem: Recomputation, limit: int) -> float | None:
    """The least time of any plan within a limit, by trying all; None where there is none."""
    queue: list[_State] = [(0.0, 0, frozenset(), frozenset())]
    done = set()
    while queue:
        state = heapq.heappop(queue)
        seconds, ran, alive, _ = state
        if state[1:] in done:
            continue
        done.add(state[1:])
        if ran == len(problem.seconds) and problem.tasks.kept <= alive:
            return seconds
        for each in (*_runs(problem, state, limit), *_copies(problem, state, limit)):
            heapq.heappush(queue, each)
    return None


def _runs(problem: Recomputation, state: _State, limit: int) -> Iterator[_State]:
    """States after one more task of the step."""
    seconds, ran, alive, stored = state
    sizes = problem.tasks.sizes
    for number, task in enumerate(problem.tasks.tasks[: ran + 1]):
        is_first, made = number == ran, frozenset(task.allocates)
        if not task.reads <= alive or not (is_first or ran <= problem.last_run[number]):
            continue
        if sum(sizes[tensor] for tensor in alive | made) <= limit:
            right = {each for each in made if is_first or ran <= problem.until[each]}
            then = seconds + problem.seconds[number], ran + is_first
            yield (*then, (alive - made) | right, stored)


def _copies(problem: Recomputation, state: _State, limit: int) -> Iterator[_State]:
    """States after a tensor that is dropped, stored or fetched."""
    seconds, ran, alive, stored = state
    sizes = problem.tasks.sizes
    for tensor in alive:
        yield seconds, ran, alive - {tensor}, stored
        if tensor not in stored and sizes[tensor]:
            cost = problem.times[problem.store_of(tensor)]
            yield seconds + cost, ran, alive, stored | {tensor}
    for tensor in stored - alive:
        if sum(sizes[each] for each in alive | {tensor}) <= limit:
            cost = problem.times[problem.fetch_of(tensor)]
            yield seconds + cost, ran, alive | {tensor}, stored


@settings(max_examples=40, deadline=None)
@given(with_storage(most=25))
def test_plans_are_possible_and_never_worse_than_without(problem: Recomputation) -> None:
    plans = frontier(problem)
    for plan in plans:
        validate(problem, plan)
        assert arena_of(problem, plan) >= plan.peak
        stored = {n for n in plan.sequence if problem.is_copy(n) and not problem.is_fetch(n)}
        region = region_of(problem, plan)
        assert region.offsets.keys() == {problem.moved(number) for number in stored}
    without = frontier(replace(problem, storage=None))
    assert set(without) <= set(plans)
    assert lowest_of(plans).peak <= without[-1].peak
    assert plans == frontier.__wrapped__(problem)


@settings(max_examples=80, deadline=None)
@given(with_storage(most=4), st.integers(0, 40))
def test_no_plan_is_better_than_the_best(problem: Recomputation, limit: int) -> None:
    best = fastest_within(problem, limit)
    found = next((plan for plan in frontier(problem) if plan.peak <= limit), None)
    if found is not None:
        assert best is not None
        assert best <= found.seconds + 1e-6


@settings(max_examples=80, deadline=None)
@given(with_storage(most=4), st.integers(0, 40), st.data())
def test_no_plan_is_faster_than_a_moment_says(
    problem: Recomputation, limit: int, data: st.DataObject
) -> None:
    task = data.draw(st.sampled_from(range(len(problem.seconds))))
    choice, best = StageProgram(problem, task).cheapest(limit), fastest_within(problem, limit)
    if best is not None:
        assert choice is not None
        assert sum(problem.seconds) + choice.seconds <= best + 1e-6


def test_chains_come_close_to_the_best() -> None:
    for length, limit, byte in ((4, 30, 0.01), (4, 40, 0.1), (4, 40, 0.05)):
        problem = replace(chain(length), storage=Storage(0.0, byte, byte))
        best = fastest_within(problem, limit)
        found = next((plan for plan in frontier(problem) if plan.peak <= limit), None)
        assert best is not None
        assert found is not None, (length, limit)
        assert found.seconds <= 1.15 * best, (length, limit)


def test_a_fast_storage_takes_the_place_of_recomputation() -> None:
    problem = replace(chain(16, size=64), storage=Storage(0.0, 1e-4, 1e-4))
    plan = lowest_of(frontier(problem))
    assert plan.peak == 3 * 64
    assert plan.seconds <= 32 + 16 * 0.02 + 1e-6
    assert not any(plan.sequence.count(number) > 1 for number in range(32))
    assert region_of(problem, plan).nbytes <= 16 * 64


def test_a_slow_storage_is_not_used() -> None:
    problem = chain(8)
    slow = replace(problem, storage=Storage(1e6, 1.0, 1.0))
    assert min(plan.peak for plan in frontier(slow)) == frontier(problem)[-1].peak
    for plan in frontier(problem):
        found = next(each for each in frontier(slow) if each.peak <= plan.peak)
        assert found.seconds <= plan.seconds


@pytest.mark.parametrize(
    ("inserted", "message"),
    [
        ([16 + 0], "fetched at 2, and not stored"),
        ([8 + 5], "reads 5, which is not there"),
        ([8, 8, 16], "stored again at 3"),
        ([24], "there is no task 24"),
        ([8, 16], "it takes"),
    ],
)
def test_the_validator_sees_what_is_wrong(inserted: list[int], message: str) -> None:
    problem = replace(chain(4), storage=Storage(1.0, 1.0, 1.0))
    sequence = (*range(2), *inserted, *range(2, 8))
    plan = replace(plan_of(problem, range(8)), sequence=sequence)
    with pytest.raises(ValueError, match=message):
        validate(problem, plan)
    right = plan_of(problem, [0, 1, 8, 16, *range(2, 8)])
    validate(problem, right)
    assert right.seconds == 8 + 2 * 11
    with pytest.raises(ValueError, match="there is no task"):
        validate(replace(problem, storage=None), right)
