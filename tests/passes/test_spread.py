"""Few of many plans: the fastest and the smallest are among them, and others are not packed."""

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odtc.passes.checkpoint import cuts
from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.cuts import Cut, ways
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.plans import spread
from odtc.passes.checkpoint.plans.spaced import spaced
from odtc.passes.checkpoint.problem import Plan, Recomputation
from tests.passes import test_checkpoint, test_cuts

SINKING = st.sets(st.integers(0, 10**6), min_size=1).map(lambda sizes: sorted(sizes, reverse=True))


@given(SINKING, st.integers(1, 40))
def test_spaced_sizes_begin_and_end_with_all_and_are_far_apart(sizes: list[int], count: int):
    found = spaced(sizes, count)
    assert found[0] == 0
    assert found[-1] == len(sizes) - 1
    assert found == sorted(set(found))
    assert len(found) <= count + 1
    step = (sizes[0] - sizes[-1]) / count
    assert all(sizes[a] - sizes[b] >= step - 1e-6 for a, b in pairwise(found[:-1]))
    # What is left out is near to what is there.
    for a, b in pairwise(found):
        assert all(sizes[a] - sizes[each] < step + 1e-6 for each in range(a, b))


@settings(max_examples=30, deadline=None)
@given(test_checkpoint.drawn(most=12), st.integers(2, 6))
def test_plans_for_all_budgets_are_the_fastest_within_theirs(
    problem: Recomputation, count: int
) -> None:
    arenas = {plan: arena_of(problem, plan) for plan in frontier(problem)}
    assume(all(arenas.values()))
    found = spread.spread(problem, count)
    assert len(found) <= count
    assert found[0] == frontier(problem)[0]
    assert arenas[found[-1]] == min(arenas.values())
    for plan in found:
        within = [each.seconds for each, arena in arenas.items() if arena <= arenas[plan]]
        assert plan.seconds == min(within)
    assert all(a.seconds < b.seconds and arenas[a] > arenas[b] for a, b in pairwise(found))


@settings(max_examples=15, deadline=None)
@given(test_cuts.drawn(), st.integers(1, 5))
def test_some_of_all_ways_are_ways_too(drawn: list[Cut[None]], count: int) -> None:
    # They are chosen by peaks.
    assume(all(arena_of(cut.problem, plan) == plan.peak for cut in drawn for plan in cut.plans))
    every, some = ways(drawn), ways(drawn, count)
    told = [(way.seconds, way.cut.form, way.nbytes) for way in every]
    assert len(some) <= count + 1
    assert {(way.seconds, way.cut.form, way.nbytes) for way in some} <= set(told)
    assert (some[0].seconds, some[0].nbytes) == (told[0][0], told[0][2])
    assert some[-1].nbytes == told[-1][2]


def test_what_is_not_chosen_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = test_checkpoint.chain(24, 64)
    packed: list[Plan] = []

    def pack(of: Recomputation, plan: Plan) -> int:
        packed.append(plan)
        return arena_of(of, plan)

    monkeypatch.setattr(cuts, "arena_of", pack)
    monkeypatch.setattr(spread, "arena_of", pack)
    plans = frontier(problem)
    assert len(plans) > 12
    cut = Cut(1, problem, 0, None)
    assert len(ways([cut], 4)) == len(packed) <= 5
    packed.clear()
    assert len(spread.spread(problem, 4)) == 4
    assert len(packed) <= 5
    packed.clear()
    ways([cut])
    assert len(packed) == len(plans)
