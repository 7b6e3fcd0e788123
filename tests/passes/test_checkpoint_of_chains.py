"""Recomputation of chains: known optima, snapshots, and what long ones need."""

import functools
from dataclasses import replace

from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.plans.eviction import Score, evicting
from odtc.passes.checkpoint.plans.revolve import revolving, split
from odtc.passes.checkpoint.plans.segments import segmented
from odtc.passes.checkpoint.problem import Recomputation, plan_of
from odtc.passes.checkpoint.validate import validate
from odtc.passes.memory.operator_order import Task, Tasks
from tests.passes.test_checkpoint import chain, fastest_within


def test_chains_come_close_to_the_best() -> None:
    for length, limit in ((4, 40), (4, 50), (5, 50), (5, 40)):
        best = fastest_within(chain(length), limit)
        found = next((plan for plan in frontier(chain(length)) if plan.peak <= limit), None)
        assert best is not None
        assert found is not None, (length, limit)
        assert found.seconds <= 1.15 * best, (length, limit)


def test_snapshots_are_where_the_fewest_steps_are_taken() -> None:
    @functools.cache
    def least(length: int, snapshots: int) -> float:
        """Steps forward that reverse a chain, the state before it being kept."""
        if length == 1:
            return 0
        if not snapshots:
            return length * (length - 1) / 2
        return min(taken(length, snapshots, at) for at in range(1, length))

    def taken(length: int, snapshots: int, at: int) -> float:
        return at + least(length - at, snapshots - 1) + least(at, snapshots)

    for length in range(2, 30):
        for snapshots in range(1, 6):
            at = split(length, snapshots)
            assert taken(length, snapshots, at) == least(length, snapshots), (length, snapshots)


def test_few_snapshots_reverse_a_long_chain() -> None:
    length = 64
    problem = replace(chain(length), turn=length)
    plans = [plan_of(problem, sequence) for sequence in revolving(problem)]
    segments = [plan_of(problem, sequence) for sequence in segmented(problem)]
    assert min(plan.peak for plan in plans) < min(plan.peak for plan in segments) / 2


def test_segments_of_a_chain_take_one_more_forward_pass() -> None:
    length = 64
    problem = replace(chain(length), turn=length)
    plans = [plan_of(problem, sequence) for sequence in segmented(problem)]
    assert max(plan.seconds for plan in plans) <= 3 * length
    # Chen et al. (2016): what is kept and what is made again are each the root of all.
    assert min(plan.peak for plan in plans) <= 10 * (2 * 8 + 3)


def test_a_long_chain_needs_little() -> None:
    length = 36
    plans = frontier(chain(length))
    # Chen et al. (2016): one more forward pass for about twice the root of the tensors.
    within = next(plan for plan in plans if plan.peak <= 10 * (2 * 6 + 3))
    assert within.seconds <= plans[0].seconds + length
    assert plans[-1].peak <= 60


def test_what_is_computed_again_may_be_far_away() -> None:
    length = 1500
    tasks = [Task((n,), frozenset({n - 1} if n else ())) for n in range(length)]
    # It needs the room of the last one, which is read after it.
    tasks.append(Task((length,), frozenset()))
    tasks.append(Task((length + 1,), frozenset({length - 1})))
    sizes = (*[10] * length, 95, 10)
    count = len(tasks)
    problem = Recomputation(Tasks(tuple(tasks), sizes), (1.0,) * count, (count,) * count)
    sequence = evicting(problem, 100, Score())
    assert sequence == [*range(length + 1), *range(length), length + 1]
    validate(problem, plan_of(problem, sequence))
