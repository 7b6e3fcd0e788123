"""The validator: what is wrong with a plan is found, and nothing else."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.problem import Buffer, PackingProblem, PackingSolution
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.validate import InvalidPlanError, validate
from tests.passes.memory.packing import problems

BUFFERS = [
    Buffer("a", 0, 4, 100, 4),
    Buffer("b", 2, 6, 50, 2),
    Buffer("c", 4, 8, 100, 4),
    Buffer("v", 3, 5, 20, 4, host="a", at=8),
    Buffer("n", 0, 8, 0, 1),
]
# c begins when a ends, but v is within a still.
PLACES = {"a": 0, "b": 100, "c": 152, "v": 8, "n": 7}


def check(height=252, lower_bound=1, leave_out=(), **places):
    offsets = {name: at for name, at in (PLACES | places).items() if name not in leave_out}
    validate(PackingProblem(BUFFERS), PackingSolution(offsets, height, lower_bound))


def test_a_right_plan_passes():
    check()
    check(c=28, b=128)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({"b": 98}, "a and b overlap"),
        ({"b": 150}, "b and c overlap"),
        ({"c": 24, "b": 128}, "c and v overlap"),
        ({"c": 8, "b": 128}, "c and v overlap"),
        ({"a": 2, "v": 10}, "a lies at 2, not at a multiple of 4"),
        ({"v": 12}, "v lies at 12, not at 8 within a"),
        ({"height": 251}, "c lies at 152, not within the height 251"),
        ({"c": -4}, "c lies at -4, not within"),
        ({"n": 253}, "n lies at 253, not within"),
        ({"lower_bound": 253}, "the height 252 is below its bound 253"),
        ({"leave_out": "b"}, r"not both planned and asked for: \['b'\]"),
        ({"z": 0}, r"not both planned and asked for: \['z'\]"),
    ],
)
def test_what_is_wrong_is_said(plan, text):
    with pytest.raises(InvalidPlanError, match=text):
        check(**plan)


@settings(max_examples=150, deadline=None)
@given(problems(most=10, views=False), st.data())
def test_a_moved_buffer_is_found_if_it_lies_on_another(problem, data):
    solution = solve(problem, Limit(1))
    if not problem.buffers:
        return
    moved = data.draw(st.sampled_from(problem.buffers))
    offset = moved.alignment * data.draw(st.integers(0, 30))
    offsets = {**solution.offsets, moved.id: offset}
    plan = dataclasses.replace(solution, offsets=offsets, height=10_000)
    cells = {
        (time, byte): []
        for buffer in problem.buffers
        for time in range(buffer.lower, buffer.upper)
        for byte in range(offsets[buffer.id], offsets[buffer.id] + buffer.size)
    }
    shared = False
    for buffer in problem.buffers:
        for time in range(buffer.lower, buffer.upper):
            for byte in range(offsets[buffer.id], offsets[buffer.id] + buffer.size):
                cells[time, byte].append(buffer.id)
                shared |= len(cells[time, byte]) > 1
    if shared:
        with pytest.raises(InvalidPlanError, match="overlap"):
            validate(problem, plan)
    else:
        validate(problem, plan)


def test_rows_beyond_one_look_are_compared():
    """Among a thousand buffers, wherever the two are that overlap."""
    buffers = [Buffer(str(n), 0, 1, 10, 1) for n in range(1000)]
    places = {buffer.id: 10 * n for n, buffer in enumerate(buffers)}
    problem = PackingProblem(buffers)
    validate(problem, PackingSolution(places, 10_000, 0))
    for one, other in ((0, 999), (255, 256), (998, 999), (300, 20), (511, 512)):
        wrong = places | {str(one): places[str(other)]}
        with pytest.raises(InvalidPlanError, match=f"{min(one, other)} and {max(one, other)} "):
            validate(problem, PackingSolution(wrong, 10_000, 0))
