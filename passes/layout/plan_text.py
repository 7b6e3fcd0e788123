"""A plan of layouts as text that can be read, edited and passed back.

# layouts of the operators that have a choice; those that are not named have NCHW
t12_ NHWC
t12__adjoint NHWC  # a comment
"""

from collections.abc import Mapping

from odtc.core.errors import UsageError
from odtc.passes.layout.problem import LayoutProblem, LayoutSolution
from odtc.passes.layout.solve import solution_of

# An operator and its layout.
_WORDS = 2


def parse_plan(text: str, where: str) -> dict[str, str]:
    """Reads a plan.

    Raises:
        UsageError: a line has not two words, or names an operator again.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != _WORDS or words[0] in found:
            what = "is not an operator and a layout"
            what = "names an operator again" if words[0] in found else what
            raise UsageError(
                f"line {number} {what}: {line.strip()!r}",
                where=where,
                hint="`odtc inspect ART --layouts` prints a plan: lines such as `t12_ NHWC`",
            )
        found[words[0]] = words[1]
    return found


def forced(problem: LayoutProblem, plan: Mapping[str, str]) -> LayoutSolution:
    """The solution that a plan asks for; its bound is unproven.

    Raises:
        UsageError: the step has no such operator, or the operator no such layout.
    """
    forms = []
    left = dict(plan)
    for operator in problem.operators:
        layout = left.pop(operator.name, operator.forms[0].name)
        names = [form.name for form in operator.forms]
        if layout not in names:
            raise UsageError(
                f"the operator {operator.name!r} cannot run in the layout {layout!r}",
                where="layout",
                hint=f"one of: {', '.join(names)}",
            )
        forms.append(names.index(layout))
    if left:
        raise UsageError(
            f"the step has no operator {next(iter(left))!r}",
            where="layout",
            hint="`odtc inspect ART --layouts` names those that have a choice",
        )
    return solution_of(problem, tuple(forms), 0.0)
