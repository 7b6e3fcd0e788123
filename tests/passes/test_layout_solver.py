"""The solver of layouts against all plans, and a validator that must be able to say no."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings

from odtc.passes.layout.problem import (
    LayoutProblem,
    LayoutSolution,
    OperatorForm,
    OperatorNode,
    Tensor,
    copies_of,
    native_of,
)
from odtc.passes.layout.solve import solution_of, solve
from odtc.passes.layout.validate import LayoutPlanError, validate
from tests.passes.layouts import best_by_trying, cost_of, played, problems

A, B = "NCHW", "NHWC"


def chain(costs: list[tuple[float, float]], copy: float) -> LayoutProblem:
    """Operators one after the other, each as fast in either layout as it says."""
    tensors = tuple(Tensor(f"t{n}", (A, B), copy, 64) for n in range(len(costs) + 1))
    operators = tuple(
        OperatorNode(
            f"op{n}",
            (n,),
            (n + 1,),
            (OperatorForm(A, (A,), (A,), native), OperatorForm(B, (B,), (B,), other)),
        )
        for n, (native, other) in enumerate(costs)
    )
    return LayoutProblem(tensors, operators)


@given(problems())
@settings(max_examples=300, deadline=None)
def test_no_plan_is_better(problem: LayoutProblem) -> None:
    solution = solve(problem)
    validate(problem, solution)
    assert solution.is_optimal
    assert solution.cost == best_by_trying(problem)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_with_small_tables_the_bound_is_one(problem: LayoutProblem) -> None:
    solution = solve(problem, most=4)
    validate(problem, solution)
    assert solution.bound <= best_by_trying(problem) <= solution.cost


@given(problems())
@settings(max_examples=100, deadline=None)
def test_seconds_and_bytes_are_those_of_the_plan_played(problem: LayoutProblem) -> None:
    for forms in (native_of(problem), tuple(len(each.forms) - 1 for each in problem.operators)):
        found = solution_of(problem, forms, 0.0)
        assert (found.seconds, found.nbytes) == played(problem, forms)
        assert found.cost == cost_of(problem, forms)


def test_a_copy_is_made_once_for_all_its_readers() -> None:
    problem = chain([(1, 1)], 0)
    first = problem.operators[0]
    readers = tuple(
        OperatorNode(f"r{n}", (1,), (2 + n,), (OperatorForm(B, (B,), (B,), 1.0),)) for n in range(3)
    )
    made = OperatorNode("made", (0,), (1,), (first.forms[0],))
    tensors = (Tensor("x", (A, B)), *(Tensor(f"t{n}", (A, B), 5.0) for n in range(4)))
    problem = LayoutProblem(tensors, (made, *readers))
    solution = solve(problem)
    assert solution.seconds == 1 + 3 + 5
    assert [(copy.tensor, copy.layout) for copy in copies_of(problem, solution.forms)] == [(1, B)]


def test_a_layout_is_taken_only_where_it_pays_for_its_copies() -> None:
    assert solve(chain([(5, 2), (5, 2)], 2)).forms == (1, 1)
    assert solve(chain([(5, 2), (5, 2)], 7)).forms == (0, 0)


def test_where_bytes_have_a_price_a_copy_has_to_be_worth_its_own() -> None:
    problem = chain([(5, 2), (5, 2)], 2)
    assert (solve(problem).forms, solve(problem).nbytes) == ((1, 1), 64)
    tight = replace(problem, price=5 / 64)
    assert (solve(tight).forms, solve(tight).nbytes) == ((0, 0), 0)
    # It gains four seconds: at less than that it is still taken.
    cheap = solve(replace(problem, price=3 / 64))
    assert (cheap.forms, cheap.seconds, cheap.cost) == ((1, 1), 6.0, 9.0)


def test_what_nobody_writes_takes_bytes_once_it_is_made_otherwise() -> None:
    problem = chain([(5, 2)], 2)
    made = replace(problem.tensors[1], written=1.0)
    problem = replace(problem, tensors=(problem.tensors[0], made))
    assert solution_of(problem, (0,), 0.0).nbytes == 0
    # The copy of what is read, and what is made.
    assert solution_of(problem, (1,), 0.0).nbytes == 2 * 64


def test_a_step_of_a_thousand_operators_is_proven_within_seconds() -> None:
    # A forward pass of blocks with shortcuts, and a backward pass that reads what it made.
    forms = (OperatorForm(A, (A, A), (A,), 3.0), OperatorForm(B, (B, B), (B,), 2.0))
    tensors = [Tensor("x", (A, B), 1.0)]
    operators = []
    for number in range(1000):
        back = 999 - number
        other = max(number - 3, 0) if number < 500 else back
        tensors.append(Tensor(f"t{number}", (A, B), 1.0 + number % 7))
        operators.append(OperatorNode(f"op{number}", (number, other), (number + 1,), forms))
    begin = time.process_time()
    solution = solve(LayoutProblem(tuple(tensors), tuple(operators)))
    assert solution.is_optimal
    assert time.process_time() - begin < 10


def test_an_operator_may_read_more_tensors_than_an_array_has_axes() -> None:
    # A concat of DenseNet reads all layers before it.
    count = 80
    forms = (OperatorForm(A, (A,), (A,), 3.0), OperatorForm(B, (B,), (B,), 2.0))
    tensors = tuple(Tensor(f"t{n}", (A, B), 0.5) for n in range(count + 2))
    makers = tuple(OperatorNode(f"op{n}", (0,), (n + 1,), forms) for n in range(count))
    layouts = (A,) * count
    concat = OperatorNode(
        "concat", tuple(range(1, count + 1)), (count + 1,), (OperatorForm(A, layouts, (A,), 0.0),)
    )
    solution = solve(LayoutProblem(tensors, (*makers, concat)))
    assert solution.is_optimal
    assert solution.seconds == 0.5 + count * 2.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forms": (1,)}, "1 forms of 2 operators"),
        ({"forms": (1, 2)}, "op1 has no form 2"),
        ({"seconds": 5.5}, "and says 5.5"),
        ({"forms": (0, 1)}, "and says"),
        ({"bound": 7.0}, "below its bound"),
        ({"nbytes": 65}, "has 64 bytes, and says 65"),
        ({"cost": 5.5}, "costs 6.0 s, and says 5.5"),
    ],
)
def test_the_validator_refuses(change: dict, said: str) -> None:
    problem = chain([(5, 2), (5, 2)], 2)
    solution = solve(problem)
    validate(problem, solution)
    with pytest.raises(LayoutPlanError, match=said):
        validate(problem, replace(solution, **change))


def test_the_validator_refuses_a_layout_that_a_tensor_cannot_have() -> None:
    problem = chain([(5, 2)], 2)
    tensors = (replace(problem.tensors[0], layouts=(A,)), problem.tensors[1])
    with pytest.raises(LayoutPlanError, match="t0 is never NHWC"):
        validate(replace(problem, tensors=tensors), LayoutSolution((1,), 4.0, 64, 4.0, 4.0))
