"""The memory plan: right on drawn problems, lowest on small ones, and low on large ones."""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.packing.inputs import CAPACITY, INPUTS, training_step
from odtc.passes.memory.packing import solve as solving
from odtc.passes.memory.packing.blocks import Blocks, blocks_of
from odtc.passes.memory.packing.budget import Budget, Limit
from odtc.passes.memory.packing.families import families_of
from odtc.passes.memory.packing.greedy import ORDERS, first_fit
from odtc.passes.memory.packing.orders import highest_load, order_of
from odtc.passes.memory.packing.problem import LARGEST, Buffer, PackingProblem
from odtc.passes.memory.packing.search import Search
from odtc.passes.memory.packing.skyline import region_of
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.tighten import tighten
from odtc.passes.memory.packing.validate import validate
from tests.calls import calls_of
from tests.fast import fast_if
from tests.passes.memory.packing import lowest_height, merged, problems
from tests.timed import ratio, seconds

PLENTY = Limit(10**12)


def solved(problem, limit=None):
    solution = solve(problem, limit)
    validate(problem, solution)
    return solution


def parts_of(problem):
    """The blocks of each part of a problem."""
    families = [family for family in families_of(problem.buffers) if family.size]
    if families:
        whole, _ = blocks_of(families)
        yield from (whole.take(rows) for rows in whole.parts())


def as_problem(blocks: Blocks) -> PackingProblem:
    columns = (blocks.lower, blocks.upper, blocks.size, blocks.alignment)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return PackingProblem([Buffer(str(number), *row) for number, row in enumerate(rows)])


def live_bytes(buffers):
    times = {buffer.lower for buffer in buffers}
    return max(sum(b.size for b in buffers if b.lower <= time < b.upper) for time in times)


@settings(max_examples=250, deadline=None)
@given(problems(most=6))
def test_small_problems_are_solved_to_the_end(problem):
    solution = solved(problem, PLENTY)
    assert solution.proven_optimal
    assert solution.height == lowest_height(*merged(problem))


@settings(max_examples=60, deadline=None)
@given(problems(most=30), st.integers(1, 200_000))
def test_whenever_the_search_ends_there_is_a_plan_and_always_the_same(problem, steps):
    solution = solved(problem, Limit(steps))
    assert solve(problem, Limit(1)).lower_bound <= solution.lower_bound
    assert solution == solve(problem, Limit(steps))


@settings(max_examples=100, deadline=None)
@given(problems(most=6, views=False), st.data())
def test_a_search_finds_a_plan_or_proves_a_bound(problem, data):
    for blocks in parts_of(problem):
        lowest = lowest_height(as_problem(blocks), common=1)
        height = data.draw(st.integers(lowest - 5, lowest + 5))
        rank = np.array(data.draw(st.permutations(range(len(blocks)))), float)
        search = Search(region_of(blocks, rank), height, np.zeros(blocks.sections), learn=True)
        found = search.run(10**6, Budget(PLENTY))
        if height < lowest:
            assert found.offsets is None
            assert height < found.lower_bound <= lowest
        else:
            assert lowest <= (found.offsets + blocks.size).max() <= height


@settings(max_examples=60, deadline=None)
@given(problems(most=6, views=False))
def test_any_plan_is_made_the_lowest(problem):
    for blocks in parts_of(problem):
        lowest = lowest_height(as_problem(blocks), common=1)
        tower = np.arange(len(blocks)) * 100 * blocks.alignment.prod()
        offsets, bound = tighten(blocks, tower, 0, 0, Budget(PLENTY))
        assert (offsets + blocks.size).max() == bound == lowest


@settings(max_examples=60, deadline=None)
@given(problems(most=20, views=False))
def test_times_may_be_reversed_and_stretched(problem):
    turned = [
        Buffer(b.id, 900 - 70 * b.upper, 900 - 70 * b.lower, b.size, b.alignment)
        for b in problem.buffers
    ]
    bounds = [
        solve(PackingProblem(each), Limit(1)).lower_bound for each in (problem.buffers, turned)
    ]
    assert bounds[0] == bounds[1]
    solved(PackingProblem(turned), Limit(20_000))


@settings(max_examples=100, deadline=None)
@given(problems(most=12, views=False))
def test_a_search_is_told_of_all_that_meets(problem):
    """Sections keep which buffers meet, and the highest load."""
    families = [family for family in families_of(problem.buffers) if family.size]
    if not families:
        return
    blocks, unit = blocks_of(families)
    for a, one in enumerate(families):
        for b, other in enumerate(families):
            meet = one.lower < other.upper and other.lower < one.upper
            assert meet == (blocks.lower[a] < blocks.upper[b] and blocks.lower[b] < blocks.upper[a])
    load = blocks.load()
    if all(buffer.alignment == 1 for buffer in problem.buffers):
        assert load.max() * unit == live_bytes(problem.buffers)
    spans = zip(blocks.lower.tolist(), blocks.upper.tolist(), strict=True)
    assert highest_load(blocks).tolist() == [load[lower:upper].max() for lower, upper in spans]


def test_only_the_fullest_moments_are_sections():
    lives = [(0, 3), (1, 4), (2, 9), (5, 6), (7, 8), (20, 30)]
    families = families_of([Buffer(str(n), *life, 1) for n, life in enumerate(lives)])
    blocks, _ = blocks_of(families)
    assert blocks.sections == 4
    assert blocks.load().tolist() == [3, 2, 2, 1]


@settings(max_examples=60, deadline=None)
@given(problems(most=20, views=False), st.integers(1, 60))
def test_first_fit_keeps_to_its_ceiling(problem, ceiling):
    for blocks in parts_of(problem):
        for names in ORDERS:
            order = order_of(blocks, names)
            free, out = first_fit(blocks, order)
            assert out is None
            bounded, out = first_fit(blocks, order, ceiling)
            if (free + blocks.size).max() <= ceiling:
                assert out is None
                assert (free == bounded).all()
            else:
                assert free[out] + blocks.size[out] > ceiling


def test_a_gap_is_used():
    blocks = Blocks(*np.array([[0, 0, 2, 2], [4, 2, 4, 4], [5, 3, 9, 3], [1, 1, 1, 1]]), sections=4)
    offsets, _ = first_fit(blocks, np.array([1, 0, 2, 3]))
    assert offsets.tolist() == [3, 0, 8, 0]


def test_parts_at_other_times_share_their_bytes():
    buffers = [Buffer(str(n), 10 * n, 10 * n + 5, 100 + n, alignment=1) for n in range(50)]
    solution = solved(PackingProblem(buffers))
    assert set(solution.offsets.values()) == {0}
    assert (solution.height, solution.proven_optimal) == (149, True)


def test_the_highest_part_decides_what_the_others_need():
    """Once one part is known to need more than its load, others are left alone at that height."""
    hard = [(0, 3, 4), (3, 9, 4), (0, 9, 4), (9, 21, 4), (0, 21, 4)]
    buffers = [
        Buffer(f"{copy}.{number}", lower + 30 * copy, upper + 30 * copy, size, 1)
        for copy in range(3)
        for number, (lower, upper, size) in enumerate(hard)
    ]
    assert solved(PackingProblem(buffers)).height == 12


def test_parts_too_large_for_a_search_have_their_bound(monkeypatch):
    monkeypatch.setattr(solving, "_LARGEST_SEARCH", 0)
    buffers = INPUTS["A"]()
    late = [Buffer(f"late{n}", 2_000_000, 2_000_001 + n, 10, 1) for n in range(3)]
    solution = solved(PackingProblem([*late, *buffers]))
    assert solution.lower_bound == live_bytes(buffers) < solution.height


def test_no_buffers_and_no_bytes():
    assert solved(PackingProblem([])).height == 0
    solution = solved(PackingProblem([Buffer("a", 0, 1, 0), Buffer("b", 0, 1, 0, host="a")]))
    assert (solution.height, solution.offsets) == (0, {"a": 0, "b": 0})


def test_tensors_are_aligned_and_the_arena_too():
    solution = solved(PackingProblem([Buffer("a", 0, 2, 10), Buffer("b", 0, 2, 65)]))
    assert sorted(solution.offsets.values()) in ([0, 64], [0, 128])
    assert (solution.height, solution.proven_optimal) == (192, True)


def test_views_keep_their_host_alive():
    buffers = [
        Buffer("host", 0, 2, 100, 4),
        Buffer("view", 1, 6, 40, 8, host="host", at=16),
        Buffer("inner", 5, 9, 8, 4, host="view", at=4),
        Buffer("other", 7, 9, 50, 1),
    ]
    solution = solved(PackingProblem(buffers))
    host = solution.offsets["host"]
    assert solution.offsets["view"] == host + 16
    assert solution.offsets["inner"] == host + 20
    assert solution.height == 150


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"host": "none"}, "buffer v is within none, which does not exist"),
        ({"host": "v"}, "buffer v is within itself"),
        ({"at": 61}, "buffer v ends at 71 within h, which has 70 bytes"),
        ({"at": 30, "alignment": 4}, "buffer v lies at 30 within h: not a multiple"),
        ({"lower": 5}, "buffer v: upper 5 is not above lower"),
        ({"size": -1}, "buffer v: size -1 is not within 0 to"),
        ({"alignment": 0}, "buffer v: alignment 0 is not above 0"),
        ({"upper": LARGEST}, "buffer v: upper 1099511627776 is not below"),
        ({"lower": -1}, "buffer v: lower -1 is not within 0 to"),
        ({"at": -4}, "buffer v: at -4 is not within 0 to"),
        ({"id": "h", "host": None}, "buffer h appears twice"),
        ({"alignment": 2**39 - 1, "at": 0}, "alignments within buffer h have no common"),
    ],
)
def test_what_is_no_problem_is_refused(changed, text):
    view = {"id": "v", "lower": 0, "upper": 5, "size": 10, "alignment": 1, "host": "h"} | changed
    with pytest.raises(ValueError, match=text):
        solve(PackingProblem([Buffer("h", 0, 9, 70, 64), Buffer(**view)]))


def test_a_capacity_is_enough():
    """A search for the lowest plan would go on; one for a plan that fits ends at once."""
    buffers = INPUTS["J"]()
    began = time.process_time()
    solution = solved(PackingProblem(buffers, 1_100_000), Limit(10**9))
    assert solution.lower_bound < solution.height <= 1_100_000
    assert time.process_time() - began < 10


def test_seconds_end_the_search():
    # Its steps alone would take days.
    solution = solved(PackingProblem(INPUTS["D"]()), Limit(10**12, seconds=0.5))
    assert not solution.proven_optimal


def test_sizes_beyond_32_bits_change_nothing():
    small = INPUTS["B"]()
    large = [Buffer(b.id, b.lower, b.upper, b.size << 18, 1) for b in small]
    large[0] = dataclasses.replace(large[0], size=large[0].size + 1)
    solution = solved(PackingProblem(large))
    assert solution.height == (CAPACITY << 18) + 1
    assert solution.proven_optimal


@pytest.mark.parametrize("name", ["input.12", *"ABCEFHIK"])
def test_challenging_inputs_are_solved_to_the_end(name):
    buffers = INPUTS[name]()
    solution = solved(PackingProblem(buffers), Limit(7_000_000))
    assert solution.height == live_bytes(buffers)
    assert solution.proven_optimal


@pytest.mark.parametrize("name", "DJ")
def test_challenging_inputs_keep_their_capacity(name):
    assert solved(PackingProblem(INPUTS[name](), CAPACITY)).height <= CAPACITY


def test_a_step_of_thousands_of_buffers():
    buffers = training_step(4_000)
    began = time.process_time()
    solution = solved(PackingProblem(buffers))
    assert solution.height <= 1.01 * solution.lower_bound
    assert time.process_time() - began < 20


@pytest.mark.parametrize("count", fast_if((12_000).__eq__, [12_000, 30_000]))
def test_a_step_of_very_many_buffers(count):
    """Each is called for, and not each for each of the others."""
    few, many = PackingProblem(training_step(4_000)), PackingProblem(training_step(count))
    # It did not search on.
    assert solved(few).proven_optimal
    solution = solved(many)
    assert solution.height <= 1.05 * solution.lower_bound
    assert calls_of(lambda: solve(many)) < 1.5 * count / 4_000 * calls_of(lambda: solve(few))


@pytest.mark.timed
@pytest.mark.parametrize("count", [12_000, 30_000])
def test_very_many_buffers_take_less_than_by_the_square_of_their_number(count):
    few, many = PackingProblem(training_step(4_000)), PackingProblem(training_step(count))
    each = seconds(lambda: solve(many))
    assert each.median < 1e-3 * count, each
    found = ratio(lambda: solve(many), lambda: solve(few))
    assert found.median < 0.6 * (count / 4_000) ** 2, found
