"""Plays a plan of layouts and adds its cost up again; shares no code with the solver."""

from odtc.passes.layout.problem import Problem, Solution

# Seconds are sums of floats in another order.
_ROUNDING = 1e-9


class LayoutPlanError(ValueError):
    """A plan is none, or its cost is another one: a fault of the solver."""


def validate(problem: Problem, solution: Solution) -> None:
    """Runs through the operators, with the layouts in which each tensor is there.

    Raises:
        LayoutPlanError: an operator has no such form, or the plan takes other seconds than it says,
            or fewer than its own bound.
    """
    if len(solution.forms) != len(problem.operators):
        raise LayoutPlanError(f"{len(solution.forms)} forms of {len(problem.operators)} operators")
    there = {number: {each.layouts[0]} for number, each in enumerate(problem.tensors)}
    seconds = 0.0
    for operator, taken in zip(problem.operators, solution.forms, strict=True):
        if not 0 <= taken < len(operator.forms):
            raise LayoutPlanError(f"{operator.name} has no form {taken}")
        form = operator.forms[taken]
        seconds += form.seconds
        for tensor, layout in zip(operator.reads, form.reads, strict=True):
            if layout not in problem.tensors[tensor].layouts:
                raise LayoutPlanError(f"{problem.tensors[tensor].name} is never {layout}")
            if layout not in there[tensor]:
                seconds += problem.tensors[tensor].seconds
                there[tensor].add(layout)
        for tensor, layout in zip(operator.writes, form.writes, strict=True):
            there[tensor] = {layout}
    room = _ROUNDING * max(seconds, _ROUNDING)
    if abs(seconds - solution.seconds) > room:
        raise LayoutPlanError(f"the plan takes {seconds} s, and says {solution.seconds} s")
    if solution.bound > seconds + room:
        raise LayoutPlanError(f"the plan takes {seconds} s, below its bound of {solution.bound} s")
