"""Plans before a step runs: odtc's arena with its lower bound, and the plan of TVM."""

from pathlib import Path

import tvm
from tvm.ir.instrument import pass_instrument

import odtc
from benchmarks.memory.cases import MODEL, StoredCase
from benchmarks.memory.planned import PlannedBytes, TvmPlan
from benchmarks.memory.tvm_planner import as_relax_training, planner_alone
from odtc.backends.built import storage_bytes
from odtc.backends.families import family_of
from odtc.backends.pipeline.phases import plan_phase
from odtc.backends.targets import Target, parse_target
from odtc.core.specs import Role
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.contract import Pass, run_pipeline
from odtc.passes.memory.arena import PlanMemory
from odtc.passes.memory.lifespans import lifespans_of
from odtc.passes.memory.packing.solve import solve

ARTIFACT = "step.odtc"
# The step with its kernels scheduled, before any memory is planned.
_SCHEDULED = "scheduled.json"
# The first pass of the phase that plans.
_PLANNING = "ToNonDataflow"
# Arguments that are neither in the arena nor parameters or state.
_FED = (Role.INPUT, Role.LABEL, Role.LEARNING_RATE, Role.STEP)


def compiled(case: StoredCase, folder: Path) -> PlannedBytes:
    """Compiles a step, which is left in the folder."""
    seen = _Seen()
    with tvm.transform.PassContext(instruments=[seen]):
        artifact = odtc.compile(
            folder / MODEL,
            _target(case),
            batch=case.batch,
            loss=case.loss,
            optimizer=odtc.SGD(),
            dropout=False,
        )
    artifact.save(folder / ARTIFACT)
    (folder / _SCHEDULED).write_text(tvm.ir.save_json(seen.modules[_PLANNING]))
    step = seen.modules[PlanMemory.name][TRAIN_STEP]
    manifest = artifact.manifest
    fed = sum(item.spec.nbytes for item in manifest.of_role(*_FED))
    sizes = manifest.sizes
    bound = solve(lifespans_of(step).problem()).lower_bound
    # The bound, as the arena, is of all but the loss.
    return PlannedBytes(artifact.memory.arena_bytes, bound, sizes.parameters, sizes.optimizer, fed)


def _target(case: StoredCase) -> Target:
    """This machine, with workspaces for the threads of the case."""
    return parse_target(f"host-cpu{{threads={case.threads}}}").resolved()


def planned_by_tvm(case: StoredCase, folder: Path) -> TvmPlan:
    """Plans the step once more, by TVM; workspaces of kernels too. Nothing is compiled for it."""
    module = tvm.ir.load_json((folder / _SCHEDULED).read_text())
    usual = plan_phase(TRAIN_STEP, family_of(_target(case)))
    with _target(case).to_tvm():
        return TvmPlan(
            _storage(module, as_relax_training(usual, TRAIN_STEP)),
            _storage(module, planner_alone(usual)),
        )


def _storage(module: tvm.IRModule, passes: tuple[Pass, ...]) -> int:
    return storage_bytes(run_pipeline(passes, module))[TRAIN_STEP]


@pass_instrument
class _Seen:
    """Keeps the module as it is before each of two passes, where they first run."""

    def __init__(self):
        self.modules: dict[str, tvm.IRModule] = {}

    def run_before_pass(self, module, info):
        """Called by TVM."""
        if info.name in (_PLANNING, PlanMemory.name):
            self.modules.setdefault(info.name, module)
