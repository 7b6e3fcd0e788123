"""The pass that chooses the layouts of a training step's images."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm

from odtc.core.artifact.layout_plan import LayoutCopy, LayoutOperator, LayoutPlan
from odtc.passes.contract import Pass
from odtc.passes.layout.plan_text import forced
from odtc.passes.layout.problem import LayoutProblem, LayoutSolution, copies_of, native_of
from odtc.passes.layout.rewrite import rewritten
from odtc.passes.layout.solve import solution_of, solve
from odtc.passes.layout.step_graph import Costs, graph_of
from odtc.passes.layout.validate import validate

# Attribute of a training step: what was chosen, as JSON.
LAYOUTS = "odtc.layouts"


@dataclass(frozen=True)
class SelectLayouts(Pass):
    """Gives the images of a training step the layouts in which it costs least.

    Attributes:
        function: name of the training step: one dataflow block.
        costs: the model of the target.
        plan: layouts of operators that are asked for, by name; None for the best ones.
        margin: share of its cost by which the best plan has to be better than the step as it is.
    """

    name: ClassVar[str] = "select-layouts"
    function: str = field(repr=False)
    costs: Costs = field(repr=False)
    plan: Mapping[str, str] | None = field(default=None, repr=False)
    margin: float = 0.0

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step, if any of its operators takes another layout.

        Raises:
            UsageError: the plan that is asked for is of another step.
        """
        graph = graph_of(module, self.function, self.costs)
        problem = graph.problem
        solution = self._best(problem) if self.plan is None else forced(problem, self.plan)
        validate(problem, solution)
        if solution.forms != native_of(problem):
            module = rewritten(module, self.function, graph, solution)
        said = json.dumps(dataclasses.asdict(record_of(problem, solution)))
        module = module.clone()
        variable = module.get_global_var(self.function)
        module.update_func(variable, module[self.function].with_attr(LAYOUTS, said))
        return module

    def _best(self, problem: LayoutProblem) -> LayoutSolution:
        """The plan that costs least, or the step as it is where that costs not much more."""
        best = solve(problem)
        native = solution_of(problem, native_of(problem), best.bound)
        return best if best.cost * (1 + self.margin) < native.cost else native


def record_of(problem: LayoutProblem, solution: LayoutSolution) -> LayoutPlan:
    """Returns the record of a plan, as an artifact keeps it."""
    operators = (
        LayoutOperator(
            operator.name,
            operator.forms[taken].name,
            {form.name: form.seconds for form in operator.forms},
        )
        for operator, taken in zip(problem.operators, solution.forms, strict=True)
        if len(operator.forms) > 1
    )
    copies = (
        LayoutCopy(tensor.name, copy.layout, tensor.nbytes, tensor.seconds)
        for copy in copies_of(problem, solution.forms)
        for tensor in (problem.tensors[copy.tensor],)
        # What lies alike in both is no copy but a view.
        if tensor.nbytes
    )
    return LayoutPlan(
        solution.seconds,
        solution.bound,
        solution_of(problem, native_of(problem), 0.0).seconds,
        solution.nbytes,
        problem.price,
        tuple(operators),
        tuple(copies),
    )
