"""The files of golden tests: a module, passes as text, and the module that these make of it.

    # passes: join-reshapes
    # target: android-cpu{threads=2}
    @I.ir_module
    ...
    # ----- gives -----
    @I.ir_module
    ...

A line that is named `plan` or `layouts` has what a budget or a user would decide.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tvm

import odtc.frontend.training  # noqa: F401 - operators of our own
from odtc.autoschedule.table import SCHEDULE_PASSES, schedule_passes
from odtc.backends.cost.call_cost import call_cost
from odtc.backends.cost.layout_cost import layout_costs
from odtc.backends.families import family_of
from odtc.backends.objects.outlines import RecallKernels
from odtc.backends.pipeline.known import known_passes
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.targets import CPU, Target, parse_target
from odtc.core.errors import OdtcError
from odtc.passes.checkpoint.problem import plan_of
from odtc.passes.contract import run_pipeline
from odtc.passes.ir.calls import Calls, workspaces_in
from odtc.passes.layout.select import SelectLayouts
from odtc.passes.pipeline.printing import script_of
from odtc.passes.pipeline.text import parse_pipeline
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from odtc.passes.schedule.recomputation import recomputation_of

GOLDEN = Path(__file__).parent
STEP, TARGET = "train_step", "android-cpu{threads=2}"
GIVES = "# ----- gives -----"
_OPTION = re.compile(r"^# (passes|target|plan|layouts): (.*)$", re.M)
_IMPORT = re.compile(r"^# from .*\n", re.M)


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        options: lines at its beginning, by name.
        given: TVM script of the module.
        gives: what is expected of the passes.
        head: all that is above that.
    """

    options: Mapping[str, str]
    given: str
    gives: str
    head: str

    def result(self) -> str:
        """The current output of the passes, or the text of their error."""
        module = self._module
        target = parse_target(self.options.get("target", TARGET)).resolved()
        known = {**SCHEDULE_PASSES, **known_passes(self._pipeline_options(target, module))}
        passes = parse_pipeline(self.options["passes"], known)
        with target.to_tvm():
            try:
                return _script(run_pipeline(passes, module))
            except OdtcError as error:
                return "\n".join(f"# error: {line}" for line in str(error).splitlines())

    def unchanged(self) -> str:
        """The output of passes that do nothing."""
        return _script(self._module)

    def text(self, gives: str) -> str:
        """The file with that as its result."""
        return f"{self.head}{GIVES}\n{gives}\n"

    @cached_property
    def _module(self) -> tvm.IRModule:
        return tvm.script.from_source(self.given)

    def _pipeline_options(self, target: Target, module: tvm.IRModule) -> PipelineOptions:
        """The options that the passes are made with."""
        family = family_of(target)
        layouts = dict(each.split("=") for each in self.options.get("layouts", "").split())
        costs = [layout_costs(target)] if target.kind == CPU else []
        return PipelineOptions(
            family,
            STEP,
            [SelectLayouts(STEP, each, layouts or None) for each in costs],
            [RecallKernels("what makes code of kernels", outlines=False)],
            schedule_passes(target),
            checkpoints=self._checkpoints(target, module) if "plan" in self.options else None,
        )

    def _checkpoints(self, target: Target, module: tvm.IRModule) -> InsertCheckpoints:
        """The plan that is asked for, of the calls of the module."""
        slots = family_of(target).slots
        calls = Calls(module[STEP], workspaces_in(module, slots))
        problem = recomputation_of(calls, module, call_cost(target))
        plan = plan_of(problem, [int(each) for each in self.options["plan"].split()])
        return InsertCheckpoints(STEP, slots, problem, [plan])


def _script(module: tvm.IRModule) -> str:
    """A module as it stands in a file."""
    return _IMPORT.sub("", script_of(module)).strip()


def files() -> list[Path]:
    """The files, each named by the pass that it is of."""
    return sorted(GOLDEN.rglob("*.txt"))


def read(path: Path) -> Case:
    """The case that a file has; one without a result has an empty one."""
    head, _, gives = path.read_text(encoding="utf-8").partition(f"{GIVES}\n")
    given = _OPTION.sub("", head)
    return Case(dict(_OPTION.findall(head)), given.strip(), gives.strip(), head)
