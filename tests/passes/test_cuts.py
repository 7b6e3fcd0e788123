"""The choice between micro-batches and recomputation, on drawn steps, beside one that tries all."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.cuts import FORMS, USUAL, Cut, KernelForm, fastest, ways
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.problem import Recomputation
from odtc.passes.memory.operator_order import Task, Tasks

COUNTS = (1, 2, 4)
# Of tensors in an arena: what they are aligned to.
UNIT = 64


@st.composite
def drawn(draw: st.DrawFn) -> list[Cut[None]]:
    """A chain of forward and backward tasks, whose sizes and times are halved with the batch.

    A part of both stays, as of weights; now and then the model of time makes more of them faster.
    Some have steps in half precision, too, which are smaller, and now and then faster; some have
    steps without what is added to all sizes, which are slower.
    """
    length = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(0, 40), min_size=2 * length, max_size=2 * length))
    fixed = draw(st.integers(0, 10))
    seconds = draw(st.lists(st.integers(1, 9), min_size=2 * length, max_size=2 * length))
    call = draw(st.sampled_from([0.0, 0.1, 1.0]))
    power = draw(st.sampled_from([0.9, 1.0, 1.1]))
    tasks = [Task((n,), frozenset({n - 1} if n else ())) for n in range(length)]
    gradient = None
    for n in reversed(range(length)):
        read = {n} | ({gradient} if gradient is not None else set())
        gradient = 2 * length - 1 - n
        tasks.append(Task((gradient,), frozenset(read)))
    beside = draw(st.integers(0, 40))
    slower = draw(st.sampled_from([0.9, 1.0, 1.1]))
    workspace = draw(st.integers(0, 20))
    allowed = draw(st.sampled_from(FORMS))
    return [
        Cut(
            count,
            Recomputation(
                Tasks(
                    tuple(tasks),
                    tuple(
                        UNIT
                        * (
                            -(-size // (2 * count if form.half else count))
                            + fixed
                            + (0 if form.direct else workspace)
                        )
                        for size in sizes
                    ),
                ),
                tuple(
                    (slower if form.half else 1) * (1.1 if form.direct else 1) * each / count**power
                    + call
                    for each in seconds
                ),
                (len(tasks),) * len(tasks),
            ),
            UNIT * beside if count > 1 else 0,
            None,
            form,
        )
        for count in COUNTS
        for form in FORMS
        if form.is_below(allowed)
    ]


def every_way(cuts: list[Cut[None]]) -> list[tuple[float, int]]:
    """Time and bytes of all plans of all cuts.

    Fewer micro-batches are never slower, and usual kernels are not slower than others.
    """
    found = []
    for cut in cuts:
        least = max(
            each.count * sum(each.problem.seconds)
            for each in cuts
            if each.count <= cut.count and each.form.is_below(cut.form)
        )
        for plan in frontier(cut.problem):
            nbytes = arena_of(cut.problem, plan) + cut.beside
            found.append((max(least, cut.count * plan.seconds), nbytes))
    return found


@settings(max_examples=20, deadline=None)
@given(drawn(), st.lists(st.integers(1, 220), min_size=2, max_size=3))
def test_the_fastest_that_fits_and_no_budget_is_worse_than_a_smaller_one(
    cuts: list[Cut[None]], budgets: list[int]
) -> None:
    every = every_way(cuts)
    found = []
    for budget in sorted(UNIT * each for each in budgets):
        way = fastest(cuts, budget)
        times = [seconds for seconds, nbytes in every if nbytes <= budget]
        assert (way is None) == (not times)
        if way is None:
            assert budget < min(cut.floor for cut in cuts) == min(size for _, size in every)
            continue
        assert way.nbytes == arena_of(way.cut.problem, way.plan) + way.cut.beside <= budget
        assert way.seconds == pytest.approx(min(times))
        found.append(way)
    for less, more in pairwise(found):
        assert more.seconds <= less.seconds
        assert more.nbytes >= less.nbytes


@settings(max_examples=15, deadline=None)
@given(drawn())
def test_ways_are_those_of_which_none_is_slower_and_larger(cuts: list[Cut[None]]) -> None:
    found, every = ways(cuts), every_way(cuts)
    assert found[0].seconds == pytest.approx(min(seconds for seconds, _ in every))
    assert found[-1].nbytes == min(nbytes for _, nbytes in every)
    assert found[0].cut.form == USUAL
    for a, b in pairwise(found):
        assert a.nbytes > b.nbytes
        # What is usual stays beside what is as fast in fewer bytes.
        assert (a.seconds, a.cut.form) < (b.seconds, b.cut.form)
        assert a.seconds <= b.seconds
    for way in found:
        again = fastest(cuts, way.nbytes)
        assert again is not None
        assert again.seconds == way.seconds
        assert again.cut.form <= way.cut.form
        assert not any(s < way.seconds - 1e-9 and n <= way.nbytes for s, n in every)


def test_no_more_cuts_are_made_than_needed() -> None:
    def cut(count: int, peak: int) -> Cut[None]:
        tasks = [Task((0,), frozenset()), Task((1,), frozenset({0}))]
        sizes = [UNIT * (peak - 1), UNIT]
        return Cut(
            count,
            Recomputation(Tasks(tuple(tasks), tuple(sizes)), (1.0, 1.0), (0, 0)),
            5 * UNIT,
            None,
        )

    asked = []

    def cuts() -> Iterator[Cut[None]]:
        for count in COUNTS:
            asked.append(count)
            yield cut(count, 100 // count)

    for budget, count, made in ((105, 1, [1]), (104, 2, [1, 2]), (30, 4, [1, 2, 4])):
        asked.clear()
        way = fastest(cuts(), UNIT * budget)
        assert way is not None
        assert (way.cut.count, asked) == (count, made)
    assert fastest(cuts(), UNIT * 29) is None


def test_what_is_exact_goes_before_float16_of_the_same_time() -> None:
    tasks = [Task((0,), frozenset()), Task((1,), frozenset({0}))]
    exact, half = (
        Cut(
            1, Recomputation(Tasks(tuple(tasks), (size, UNIT)), (1.0, seconds), (0, 0)), 0, "", form
        )
        for size, seconds, form in ((8 * UNIT, 1.0, USUAL), (4 * UNIT, 0.5, KernelForm(half=True)))
    )
    for budget, chosen in ((9, exact), (8, half), (5, half)):
        way = fastest([exact, half], UNIT * budget)
        assert way is not None
        # The model's faster float16 counts as no faster than what is exact.
        assert (way.cut, way.seconds) == (chosen, 2.0)
    assert [way.cut for way in ways([exact, half])] == [exact, half]


def test_what_counts_is_the_packed_arena_not_the_peak() -> None:
    # Two tensors of a byte, each of which has room for what it is aligned to.
    tasks = [Task((0,), frozenset()), Task((1,), frozenset({0}))]
    cut = Cut(1, Recomputation(Tasks(tuple(tasks), (1, 1)), (1.0, 1.0), (0, 0)), 0, None)
    way = fastest([cut], 2 * UNIT)
    assert way is not None
    assert (way.plan.peak, way.nbytes) == (2, 2 * UNIT)
    assert fastest([cut], 2 * UNIT - 1) is None
