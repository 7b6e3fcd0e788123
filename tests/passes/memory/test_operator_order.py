"""The order of calls: possible, never worse, and the lowest on small drawn problems."""

import random
import time
from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.passes.memory import operator_order
from odtc.passes.memory.operator_order import Task, Tasks, lower_bound, lowest_order, peak_of


@st.composite
def drawn_tasks(draw: st.DrawFn, most: int) -> Tasks:
    """Tasks that make up to two tensors each, of which later ones read some."""
    tasks, sizes = [], []
    for number in range(draw(st.integers(0, most))):
        reads = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=3)) if sizes else set()
        after = draw(st.sets(st.sampled_from(range(number)), max_size=2)) if number else set()
        made = draw(st.lists(st.integers(0, 9), max_size=2))
        places = range(len(sizes), len(sizes) + len(made))
        sizes += made
        tasks.append(Task(tuple(places), frozenset(reads), frozenset(after)))
    kept = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=2)) if sizes else set()
    return Tasks(tuple(tasks), tuple(sizes), frozenset(kept))


def replayed(tasks: Tasks, order: tuple[int, ...]) -> int:
    """The peak of an order, by a set of tensors; it fails where a task comes too early."""
    alive, peak, ran = set(), 0, set()
    for place, number in enumerate(order):
        task = tasks.tasks[number]
        assert task.reads <= alive
        assert task.after <= ran
        alive |= set(task.allocates)
        ran.add(number)
        peak = max(peak, sum(tasks.sizes[tensor] for tensor in alive))
        later = {read for other in order[place + 1 :] for read in tasks.tasks[other].reads}
        alive &= later | tasks.kept
    assert len(ran) == len(order) == len(tasks.tasks)
    return peak


def possible_orders(tasks: Tasks) -> Iterator[tuple[int, ...]]:
    for order in permutations(range(len(tasks.tasks))):
        made, ran = set(), set()
        for number in order:
            task = tasks.tasks[number]
            if not (task.reads <= made and task.after <= ran):
                break
            made |= set(task.allocates)
            ran.add(number)
        else:
            yield order


@settings(max_examples=150, deadline=None)
@given(drawn_tasks(most=6))
def test_the_lowest_order_of_few_tasks(tasks: Tasks) -> None:
    lowest = min(replayed(tasks, order) for order in possible_orders(tasks))
    found = lowest_order(tasks)
    assert replayed(tasks, found.order) == found.peak == lowest
    assert lower_bound(tasks) <= found.lower_bound <= lowest


@settings(max_examples=60, deadline=None)
@given(drawn_tasks(most=40), st.integers(1, 400))
def test_a_short_search_is_never_worse_and_always_the_same(tasks: Tasks, states: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator_order, "_STATES", states)
        found = lowest_order(tasks)
        assert found == lowest_order(tasks)
    given_order = tuple(range(len(tasks.tasks)))
    assert replayed(tasks, given_order) == peak_of(tasks, given_order)
    assert found.lower_bound <= replayed(tasks, found.order) == found.peak
    assert found.peak <= peak_of(tasks, given_order)


@settings(max_examples=200, deadline=None)
@given(tasks=drawn_tasks(12), chance=st.randoms(use_true_random=False))
def test_what_could_run_without_loss_is_known_behind_each_task(
    tasks: Tasks, chance: random.Random
) -> None:
    """As if all that can run were asked again."""
    state, ran = operator_order._start(tasks), set()
    while True:
        ready = [
            number
            for number, task in enumerate(tasks.tasks)
            if number not in ran and task.after | {tasks.makers[read] for read in task.reads} <= ran
        ]
        assert state.ready == sum(1 << number for number in ready)
        done = sum(1 << number for number in ran)
        assert state.willing == sum(
            1 << number
            for number in ready
            if tasks.grown[number] <= tasks.freed(number, done | 1 << number)
        )
        if not ready:
            break
        number = chance.choice(ready)
        state = operator_order._after(tasks, state, number)
        ran.add(number)
    assert len(ran) == len(tasks.tasks)


def test_the_branch_that_leaves_less_behind_runs_first() -> None:
    tasks = [
        Task((0,), frozenset()),
        Task((1,), frozenset({0})),
        Task((2,), frozenset()),
        Task((3,), frozenset({2})),
        Task((), frozenset({1, 3})),
    ]
    branches = Tasks(tuple(tasks), (100, 60, 120, 5))
    assert peak_of(branches, range(5)) == 185
    found = lowest_order(branches)
    assert (found.order, found.peak, found.lower_bound) == ((2, 3, 0, 1, 4), 165, 165)


def test_a_task_before_what_it_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="task 0 is in front of one that it needs"):
        Tasks((Task((), frozenset({0})), Task((0,), frozenset())), (1,))


def test_after_a_search_that_was_cut_short_higher_limits_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each of four pairs may end before the next one begins.
    tasks = [Task((n,), frozenset()) for n in range(4)]
    tasks += [Task((), frozenset({n})) for n in range(4)]
    pairs = Tasks(tuple(tasks), (100, 100, 100, 100))
    within = operator_order._within

    def cut_short(tasks: Tasks, limit: int) -> tuple[tuple[int, ...] | None, bool]:
        return within(tasks, limit) if limit >= 150 else (None, False)

    monkeypatch.setattr(operator_order, "_within", cut_short)
    found = lowest_order(pairs)
    assert (peak_of(pairs, range(8)), found.peak, found.lower_bound) == (400, 100, 100)


def test_tasks_that_wait_are_not_looked_at_again() -> None:
    """As the updates of a DenseNet: they can run long before it pays, beside long chains."""
    count = 100
    waiting = [Task((number,), frozenset()) for number in range(count)]
    links = range(count, 2 * count)
    chain = [Task((n,), frozenset({n - 1} if n > count else ())) for n in links]
    sizes = (*[1] * count, *range(2 * count, count, -1))
    began = time.process_time()
    found = lowest_order(Tasks((*waiting, *chain), sizes, frozenset(range(count))))
    # Of which about a second is needed.
    assert time.process_time() - began < 30
    assert found.peak == found.lower_bound == 4 * count - 1


@settings(max_examples=100, deadline=None)
@given(tasks=drawn_tasks(12))
def test_limits_between_two_peaks_that_orders_can_have_are_not_tried(tasks: Tasks) -> None:
    """All sizes of a step are multiples of 64: a limit a byte higher holds the same orders."""
    limits: list[int] = []
    within = operator_order._within

    def counted(tasks: Tasks, limit: int) -> tuple[tuple[int, ...] | None, bool]:
        limits.append(limit)
        return within(tasks, limit)

    aligned = Tasks(tasks.tasks, tuple(64 * size for size in tasks.sizes), tasks.kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator_order, "_within", counted)
        lowest_order(aligned)
    assert all(limit % 64 == 0 for limit in limits)
    assert len(set(limits)) == len(limits)


def test_readers_that_leave_something_behind_are_not_asked_about_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many updates read one predicate: a search looks at each a few times, not once for each."""
    asked = 0
    is_willing = operator_order._is_willing

    def counted(tasks: Tasks, number: int, done: int) -> bool:
        nonlocal asked
        asked += 1
        return is_willing(tasks, number, done)

    monkeypatch.setattr(operator_order, "_is_willing", counted)
    readers = 100
    tasks = [
        Task((0,), frozenset()),
        *(Task((number,), frozenset()) for number in range(1, readers + 1)),
        *(Task((readers + number,), frozenset({0, number})) for number in range(1, readers + 1)),
    ]
    graph = Tasks(tuple(tasks), (64, *[128] * readers, *[192] * readers))
    state = operator_order._start(graph)
    for number in range(len(tasks)):
        state = operator_order._after(graph, state, number)
    assert state.ready == 0
    assert asked <= 3 * len(tasks)
