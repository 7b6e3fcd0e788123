"""Plans of recomputation: possible ones by a validator of their own, within limits, and not far
from the best of small drawn problems."""

import heapq
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.recomputation.problems import layered
from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import STRATEGIES, frontier
from odtc.passes.checkpoint.plans import eviction
from odtc.passes.checkpoint.plans.eviction import Score, evicting
from odtc.passes.checkpoint.problem import Plan, Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.repair import repaired
from odtc.passes.checkpoint.retention import retained
from odtc.passes.checkpoint.stage_program import StageProgram
from odtc.passes.checkpoint.validate import validate
from odtc.passes.memory.operator_order import Task, Tasks
from tests.calls import calls_of
from tests.fast import examples


@st.composite
def drawn(draw: st.DrawFn, most: int) -> Recomputation:
    """Tasks of up to two results; some may never run again, some not after a later task."""
    tasks, sizes, until = [], [], []
    count = draw(st.integers(1, most))
    for number in range(count):
        reads = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=3)) if sizes else set()
        made = draw(st.lists(st.integers(0, 9), min_size=1, max_size=2))
        tasks.append(Task(tuple(range(len(sizes), len(sizes) + len(made))), frozenset(reads)))
        sizes += made
        until += [draw(st.sampled_from([0, count, count, number + 2]))] * len(made)
    kept = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=1))
    for tensor in kept:
        until[tensor] = 0
    seconds = [float(draw(st.integers(1, 9))) for _ in tasks]
    return Recomputation(
        Tasks(tuple(tasks), tuple(sizes), frozenset(kept)), tuple(seconds), tuple(until)
    )


def chain(length: int, size: int = 10) -> Recomputation:
    """Forward tasks, of each of which a backward task reads the result and what came before."""
    tasks = [Task((n,), frozenset({n - 1} if n else ())) for n in range(length)]
    gradient = None
    for n in reversed(range(length)):
        reads = {n} | ({gradient} if gradient is not None else set())
        gradient = 2 * length - 1 - n
        tasks.append(Task((gradient,), frozenset(reads)))
    count = len(tasks)
    return Recomputation(Tasks(tuple(tasks), (size,) * count), (1.0,) * count, (count,) * count)


def fastest_within(problem: Recomputation, limit: int) -> float | None:
    """The least time of any plan within a limit, by trying all; None where there is none.

    A state is how many tasks have run first, and what is alive. Tensors may be dropped whenever.
    """
    tasks, sizes = problem.tasks.tasks, problem.tasks.sizes
    queue, done = [(0.0, 0, frozenset[int]())], set()
    while queue:
        seconds, ran, alive = heapq.heappop(queue)
        if (ran, alive) in done:
            continue
        done.add((ran, alive))
        if ran == len(tasks):
            if problem.tasks.kept <= alive:
                return seconds
            continue
        for number in range(ran + 1):
            task = tasks[number]
            is_first = number == ran
            if not task.reads <= alive or not (is_first or ran <= problem.last_run[number]):
                continue
            made = frozenset(task.allocates)
            if sum(sizes[tensor] for tensor in alive | made) <= limit:
                right = {each for each in made if is_first or ran <= problem.until[each]}
                after = (alive - made) | right
                heapq.heappush(queue, (seconds + problem.seconds[number], ran + is_first, after))
        for tensor in alive:
            heapq.heappush(queue, (seconds, ran, alive - {tensor}))
    return None


@settings(max_examples=examples(60), deadline=None)
@given(drawn(most=30))
def test_plans_are_possible_and_each_is_faster_or_smaller(problem: Recomputation) -> None:
    plans = frontier(problem)
    for plan in plans:
        validate(problem, plan)
        assert arena_of(problem, plan) >= plan.peak
    assert plans[0].seconds == pytest.approx(sum(problem.seconds))
    assert all(a.seconds < b.seconds and a.peak > b.peak for a, b in pairwise(plans))
    assert plans == frontier.__wrapped__(problem)


@settings(max_examples=100, deadline=None)
@given(drawn(most=5), st.integers(0, 40))
def test_no_plan_is_better_than_the_best(problem: Recomputation, limit: int) -> None:
    best = fastest_within(problem, limit)
    found = next((plan for plan in frontier(problem) if plan.peak <= limit), None)
    if found is not None:
        assert best is not None
        assert best <= found.seconds


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=examples(40), deadline=None)
@given(problem=drawn(most=30), turn=st.integers(0, 30))
def test_known_ways_are_possible_and_never_better(
    name: str, problem: Recomputation, turn: int
) -> None:
    problem = replace(problem, turn=min(turn, len(problem.seconds)))
    plans = frontier(problem)
    for sequence in STRATEGIES[name](problem):
        plan = plan_of(problem, sequence)
        validate(problem, plan)
        assert any(each.seconds <= plan.seconds and each.peak <= plan.peak for each in plans)


@settings(max_examples=100, deadline=None)
@given(drawn(most=5), st.integers(0, 40), st.data())
def test_no_plan_is_faster_than_a_moment_says(
    problem: Recomputation, limit: int, data: st.DataObject
) -> None:
    task = data.draw(st.sampled_from(range(len(problem.seconds))))
    choice, best = StageProgram(problem, task).cheapest(limit), fastest_within(problem, limit)
    if best is not None:
        assert choice is not None
        assert sum(problem.seconds) + choice.seconds <= best + 1e-6


def test_a_moment_chooses_what_is_cheap_for_its_bytes() -> None:
    # Tasks 0 to 2 make tensors that tasks 4 to 6 read; task 3 needs the room.
    tasks = [Task((n,), frozenset()) for n in range(4)]
    tasks += [Task((4 + n,), frozenset({n})) for n in range(3)]
    seconds = (3.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0)
    sizes = (10, 10, 10, 50, 0, 0, 0)
    problem = Recomputation(Tasks(tuple(tasks), sizes), seconds, (7,) * 7)
    choice = StageProgram(problem, 3).cheapest(70)
    assert choice is not None
    assert choice.kept == {0, 2}
    assert choice.seconds == pytest.approx(1)
    half = StageProgram(problem, 3).cheapest(65)
    assert half is not None
    assert half.seconds == pytest.approx(2), "half of a tensor is kept by the relaxation"
    assert StageProgram(problem, 3).cheapest(49) is None


@settings(max_examples=60, deadline=None)
@given(drawn(most=25), st.integers(1, 200))
def test_retention_only_takes_away(problem: Recomputation, limit: int) -> None:
    sequence = evicting(problem, limit, Score())
    assume(sequence is not None)
    before = plan_of(problem, sequence or ())
    after = retained(problem, before.sequence, limit)
    validate(problem, after)
    assert after.seconds <= before.seconds
    assert after.peak <= limit


@pytest.mark.parametrize("score", [Score(), Score(1, 0.5, 0.5), Score(0, 0, 1)])
def test_how_far_a_chain_is_followed_first_changes_nothing(score: Score, monkeypatch) -> None:
    """The tensors that are cheapest to compute again are dropped, however that is found out."""
    problem = layered(60)
    peak = plan_of(problem, range(60)).peak
    limits = [peak * part // 20 for part in range(13, 20)]
    found = [evicting(problem, limit, score) for limit in limits]
    assert any(found)
    for followed in (1, math.inf):
        monkeypatch.setattr(eviction, "_FOLLOWED", followed)
        assert [evicting(problem, limit, score) for limit in limits] == found


def test_what_is_computed_again_without_end_is_no_plan() -> None:
    """Tensors that need each other, and do not fit, were dropped in turns: it took 14 seconds."""
    problem = layered(250)
    first = plan_of(problem, range(250))
    limit = 2192128
    choice = StageProgram(problem, highest_of(problem, first)).cheapest(limit)
    found = [[]]

    def run() -> None:
        found[:] = [evicting(problem, limit, Score(1, 1, 0), choice)]

    # Of which it needs a third; six times as many where it gives up ten times as late.
    assert calls_of(run) < 2_000_000
    assert found == [None]


def test_what_changes_is_not_made_again() -> None:
    # Task 1 changes what task 0 reads; a large task 2 lies between the uses of 0's result.
    tasks = (
        Task((0,), frozenset()),
        Task((1,), frozenset({0})),
        Task((2,), frozenset()),
        Task((3,), frozenset({0, 1})),
    )
    free = Recomputation(Tasks(tasks, (50, 1, 100, 1)), (1.0,) * 4, (4, 0, 4, 4))
    assert frontier(free)[-1].peak == 101
    bound = replace(free, until=(1, 0, 4, 4))
    assert frontier(bound)[-1].peak == 151
    with pytest.raises(ValueError, match="task 0 runs again at 3, and makes another 0"):
        validate(bound, plan_of(bound, [0, 1, 2, 0, 3]))


def test_what_is_going_to_change_is_made_again_before_that() -> None:
    # Task 3 changes what task 0 reads; a large task 2 lies before it, and task 4 after it.
    tasks = (
        Task((0,), frozenset()),
        Task((1,), frozenset()),
        Task((2,), frozenset()),
        Task((3,), frozenset()),
        Task((4,), frozenset({0, 1})),
    )
    sizes, seconds = (40, 40, 40, 0, 0), (1.0, 9.0, 1.0, 1.0, 1.0)
    problem = Recomputation(Tasks(tasks, sizes), seconds, (3, 5, 5, 5, 5))
    assert evicting(problem, 100, Score()) == [0, 1, 2, 0, 3, 4]
    assert frontier(problem)[-1].peak == 80


def test_what_others_are_made_again_from_is_kept() -> None:
    # Task 4 reads again what task 1 makes of task 0's result, which nothing else reads after 2.
    tasks = (
        Task((0,), frozenset()),
        Task((1,), frozenset({0})),
        Task((2,), frozenset({0, 1})),
        Task((3,), frozenset()),
        Task((4,), frozenset({1})),
    )
    sizes, seconds = (10, 40, 0, 60, 0), (100.0, 1.0, 1.0, 1.0, 1.0)
    problem = Recomputation(Tasks(tasks, sizes), seconds, (5,) * 5)
    choice = StageProgram(problem, 3).cheapest(75)
    assert choice is not None
    assert (choice.kept, choice.again) == ({0}, {1})
    assert evicting(problem, 75, Score(), choice) == [0, 1, 2, 3, 1, 4]
    assert evicting(problem, 75, Score()) == [0, 1, 2, 3, 0, 1, 4]


@settings(max_examples=60, deadline=None)
@given(drawn(most=25), st.integers(1, 200), st.sampled_from([0.0, 0.05, 0.3]))
def test_a_choice_asked_for_again_is_possible(
    problem: Recomputation, limit: int, slack: float
) -> None:
    sequence = evicting(problem, limit, Score(1, 1, 0), slack=slack)
    assume(sequence is not None)
    plan = plan_of(problem, sequence or ())
    validate(problem, plan)
    assert plan.peak <= limit


def test_a_choice_asked_for_again_saves_calls() -> None:
    """After the first tight moment of a drawn graph come others, of which it says nothing."""
    problem = layered(500)
    first = plan_of(problem, range(500))
    limit = int(0.8 * first.peak)
    choice = StageProgram(problem, highest_of(problem, first)).cheapest(limit)
    once, again = (
        plan_of(problem, evicting(problem, limit, Score(1, 1, 0), choice, slack) or ())
        for slack in (None, 0.05)
    )
    validate(problem, again)
    more, less = (plan.seconds / first.seconds - 1 for plan in (once, again))
    assert 0 < less < more / 2


@pytest.mark.parametrize(
    ("nodes", "lowest"), [(100, 0.5), pytest.param(250, 0.6, marks=pytest.mark.slow)]
)
def test_drawn_graphs_come_close_to_what_no_plan_is_faster_than(nodes: int, lowest: float) -> None:
    problem = layered(nodes)
    first = plan_of(problem, range(nodes))
    stage, plans = StageProgram(problem, highest_of(problem, first)), frontier(problem)
    for share, most in ((0.9, 1.003), (0.8, 1.02)):
        limit = int(share * first.peak)
        least = stage.cheapest(limit)
        found = next(plan for plan in plans if plan.peak <= limit)
        assert least is not None
        assert found.seconds <= most * (first.seconds + least.seconds)
    # Walks find none there.
    assert plans[-1].peak < lowest * first.peak


@settings(max_examples=200, deadline=None)
@given(drawn(most=25), st.integers(0, 200), st.floats(0.4, 1))
def test_a_repair_is_possible_and_within_its_limit(
    problem: Recomputation, limit: int, share: float
) -> None:
    first = range(len(problem.seconds))
    for most in (limit, int(share * plan_of(problem, first).peak)):
        sequence = repaired(problem, most, first)
        if sequence is not None:
            plan = plan_of(problem, sequence)
            validate(problem, plan)
            assert plan.peak <= most


@pytest.mark.parametrize(("nodes", "seed"), [(250, 0), (500, 1), (1000, 0), (1000, 1)])
def test_large_drawn_graphs_have_plans_at_four_fifths(nodes: int, seed: int) -> None:
    problem = layered(nodes, seed)
    first = plan_of(problem, range(nodes))
    limit = first.peak * 4 // 5
    sequence = repaired(problem, limit, first.sequence)
    assert sequence is not None
    plan = retained(problem, sequence, limit)
    validate(problem, plan)
    least = StageProgram(problem, highest_of(problem, first)).cheapest(limit)
    assert least is not None
    assert plan.seconds <= 1.05 * (first.seconds + least.seconds)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequence": (1, 0, 2, 3)}, "do not run first in their order"),
        ({"sequence": (0, 1, 2)}, "do not run first in their order"),
        ({"peak": 1}, "the peak is"),
        ({"seconds": 1.0}, "it takes"),
    ],
)
def test_the_validator_sees_what_is_wrong(change: dict, message: str) -> None:
    problem = chain(2)
    plan = frontier(problem)[0]
    validate(problem, plan)
    with pytest.raises(ValueError, match=message):
        validate(problem, replace(plan, **change))


def test_the_highest_task() -> None:
    problem = chain(3)
    plan = Plan(tuple(range(6)), 40, 6.0)
    assert highest_of(problem, plan) == 3
