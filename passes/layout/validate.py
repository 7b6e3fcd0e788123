"""Plays a plan of layouts and adds its cost up again; shares no code with the solver."""

from collections.abc import Sequence

from odtc.passes.layout.problem import LayoutProblem, LayoutSolution, Tensor

# Seconds are sums of floats in another order.
_ROUNDING = 1e-9


class LayoutPlanError(ValueError):
    """A plan is none, or its cost is another one: a fault of the solver."""


def validate(problem: LayoutProblem, solution: LayoutSolution) -> None:
    """Runs through the operators, with the layouts in which each tensor is there.

    Raises:
        LayoutPlanError: an operator has no such form, or the plan has other seconds, bytes or costs
            than it says, or costs less than its own bound.
    """
    if len(solution.forms) != len(problem.operators):
        raise LayoutPlanError(f"{len(solution.forms)} forms of {len(problem.operators)} operators")
    seconds, nbytes = _played(problem, solution.forms)
    if nbytes != solution.nbytes:
        raise LayoutPlanError(f"the plan has {nbytes} bytes, and says {solution.nbytes}")
    cost = seconds + nbytes * problem.price
    room = _ROUNDING * max(cost, _ROUNDING)
    if abs(seconds - solution.seconds) > room:
        raise LayoutPlanError(f"the plan takes {seconds} s, and says {solution.seconds} s")
    if abs(cost - solution.cost) > room:
        raise LayoutPlanError(f"the plan costs {cost} s, and says {solution.cost} s")
    if solution.bound > cost + room:
        raise LayoutPlanError(f"the plan costs {cost} s, below its bound of {solution.bound} s")


def _played(problem: LayoutProblem, forms: Sequence[int]) -> tuple[float, int]:
    """Seconds of a plan, and bytes that are in memory because of it."""
    there = {number: {each.layouts[0]} for number, each in enumerate(problem.tensors)}
    seconds = 0.0
    for operator, taken in zip(problem.operators, forms, strict=True):
        if not 0 <= taken < len(operator.forms):
            raise LayoutPlanError(f"{operator.name} has no form {taken}")
        form = operator.forms[taken]
        seconds += form.seconds
        for number, layout in zip(operator.reads, form.reads, strict=True):
            seconds += _read(problem.tensors[number], layout, there[number])
        for tensor, layout in zip(operator.writes, form.writes, strict=True):
            there[tensor] = {layout}
    nbytes = 0
    for number, tensor in enumerate(problem.tensors):
        usual = 0 if tensor.written else 1
        in_memory = usual if there[number] == {tensor.layouts[0]} else len(there[number])
        nbytes += (in_memory - usual) * tensor.nbytes
    return seconds, nbytes


def _read(tensor: Tensor, layout: str, there: set[str]) -> float:
    """Seconds until a tensor is in a layout, in which it is then."""
    if layout not in tensor.layouts:
        raise LayoutPlanError(f"{tensor.name} is never {layout}")
    if layout in there:
        return 0.0
    is_unwritten = there == {tensor.layouts[0]}
    there.add(layout)
    return tensor.seconds + (tensor.written if is_unwritten else 0.0)
