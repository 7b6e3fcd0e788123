"""A training graph down to a planned VM module, and on to a library.

The passes of each phase are tables, in `backends/pipeline/phases.py`. `build` runs them, lowers the
rest of the VM and compiles the kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm.relax import transform as X  # noqa: N812

from odtc.backends.built import Built, built_of, names_beside, names_of_alike
from odtc.backends.cpus import tvm_cpu
from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.families import family_of
from odtc.backends.family.family import Family
from odtc.backends.objects.compiling import compiled
from odtc.backends.objects.kernel_objects import pass_context
from odtc.backends.objects.outlines import Outlines, recall_phase
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.pipeline.phases import fuse_phase, plan_phase, rewrite_phase
from odtc.backends.targets import Target
from odtc.backends.vector_math import register_vector_math
from odtc.core.artifact.memory_plan import Origin
from odtc.core.errors import UnsupportedError
from odtc.passes.contract import Pass, run_pipeline
from odtc.passes.memory.arena import farthest_element
from odtc.passes.memory.take_arena import TakeArena
from odtc.passes.pipeline.printing import is_watched
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints


def vm_phase() -> tvm.transform.Pass:
    """Planned storage to VM instructions."""
    return tvm.transform.Sequential(
        [
            X.LowerAllocTensor(),
            X.KillAfterLastUse(),
            X.LowerRuntimeBuiltin(),
            X.ComputePrimValue(),
            X.VMShapeLower(),
            X.AttachGlobalSymbol(),
        ]
    )


def build(
    module: tvm.IRModule,
    target: Target,
    train_step: str | None,
    schedule: Sequence[Pass],
    rewrites: Sequence[Pass] = (),
    *,
    origins: Sequence[Origin] = (),
    has_half: bool = False,
) -> Built:
    """Lowers and compiles a module for a target, in as many bytes as it takes.

    Args:
        module: Relax functions, the training step among them.
        target: what to compile for.
        train_step: name of the training step, whose result names what it updates; None where the
            module only runs forward.
        schedule: passes that schedule the kernels.
        rewrites: passes over the Relax operators, such as what is stored in half precision.
        origins: of the tensors that the variables of the training step are named by.
        has_half: whether products may multiply float16, which the target must have.
    """
    target = target.resolved()
    scheduled = to_kernels(module, target, train_step, schedule, rewrites, has_half=has_half)
    return build_kernels(scheduled, target, train_step, origins=origins)


def build_kernels(
    scheduled: tvm.IRModule,
    target: Target,
    train_step: str | None,
    *,
    origins: Sequence[Origin] = (),
    checkpoints: InsertCheckpoints | None = None,
    apart: bool = False,
) -> Built:
    """Plans and compiles what `to_kernels` returns, or `in_order` of it.

    Args:
        scheduled: the module; its calls in their order, where any of them runs again.
        target: what to compile for, resolved.
        train_step: name of the training step, if there is one.
        origins: of the tensors that its variables are named by.
        checkpoints: what lets calls of it run again, if anything does.
        apart: whether kernels become object files where the target has them, each kept for the
            next compile; the module can only be exported then.

    Raises:
        UnsupportedError: an arena has more elements than the target's kernels can count, or a
            kernel is beyond a limit of its GPU.
        NotKeptError: what an outline stands for is not kept any more.
    """
    planned = plan_kernels(scheduled, target, train_step, origins=origins, checkpoints=checkpoints)
    (built,) = compile_planned([planned], target, apart=apart)
    return built


@dataclass(frozen=True, eq=False)
class Lowered:
    """A module whose storage is planned, and which is to be compiled.

    Attributes:
        scheduled: its kernels, before storage was planned.
        planned: the module.
        train_step: name of the training step, if there is one.
        steps: names of the functions that are it, one for each plan.
    """

    scheduled: tvm.IRModule
    planned: tvm.IRModule
    train_step: str | None
    steps: Sequence[str]


def plan_kernels(
    scheduled: tvm.IRModule,
    target: Target,
    train_step: str | None,
    *,
    origins: Sequence[Origin] = (),
    checkpoints: InsertCheckpoints | None = None,
) -> Lowered:
    """Plans the storage of a module; arguments and errors as of `build_kernels`."""
    family = family_of(target)
    with target.to_tvm():
        planned = run_pipeline(plan_phase(train_step, family, origins, checkpoints), scheduled)
        _check_countable(planned, family, target)
    steps = PipelineOptions(family, train_step, checkpoints=checkpoints).steps
    return Lowered(scheduled, planned, train_step, steps)


def compile_planned(
    lowered: Sequence[Lowered], target: Target, *, apart: bool = False
) -> Sequence[Built]:
    """Compiles modules into one library; TVM runs the functions of the first alone.

    Kernels of the others have names of their own, and those that are alike one code.

    Args:
        lowered: the modules.
        target: what to compile for, resolved.
        apart: as of `build_kernels`.

    Raises:
        NotKeptError: what an outline stands for is not kept any more.
    """
    first, *others = lowered
    family = family_of(target)
    is_apart = apart and family.apart
    planned = [each.planned for each in others]
    named = (
        [names_beside(number, each) for number, each in enumerate(planned, 1)]
        if is_apart
        else names_of_alike(first.planned, planned)
    )
    own = {variable.name_hint for variable in first.planned.get_global_vars()}
    more = {
        name: module[kernel]
        for names, module in zip(named, planned, strict=True)
        for kernel, name in names.items()
        if name not in own
    }
    tvm_target = target.to_tvm()
    with tvm_target:
        # Views have the types of the tensors that they are, which were verified as these.
        called = run_pipeline([TakeArena(first.steps)], first.planned, types=False)
        with family.compiling(), _unchecked():
            also = [tvm_cpu(cpu) for cpu in target.cpus[1:]]
            made = compiled(called, tvm_target, vm_phase(), apart=is_apart, also=also, more=more)
    return [
        built_of(made, each.scheduled, each.planned, each.train_step, each.steps, names)
        for names, each in zip(({}, *named), lowered, strict=True)
    ]


def _unchecked() -> tvm.transform.PassContext:
    """A context in which kernels do not check their arguments.

    A step checks its own when it is called, and what it calls kernels with is planned. Checks of
    shapes, strides and dtypes were half of the code of a kernel, and of the time to compile it.
    """
    now = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=now.opt_level, config={**now.config, "tirx.disable_assert": True}
    )


def _check_countable(planned: tvm.IRModule, family: Family, target: Target) -> None:
    farthest, most = farthest_element(planned), (1 << family.offset_bits - 1) - 1
    if farthest > most:
        raise UnsupportedError(
            f"a tensor of the step ends {farthest:,} elements after the beginning of its arena; "
            f"kernels of {target.name} can count {most:,}",
            where=target.spec,
            hint="give a --memory-budget, or a smaller batch",
        )


def to_kernels(  # noqa: PLR0913 - one keyword for each choice
    module: tvm.IRModule,
    target: Target,
    train_step: str | None,
    schedule: Sequence[Pass],
    rewrites: Sequence[Pass] = (),
    *,
    has_half: bool = False,
    records: RecordLookup = no_records,
    direct: bool = False,
    outlines: Outlines = Outlines.NEVER,
) -> tvm.IRModule:
    """The module as calls of scheduled kernels; arguments as of `build`.

    `records` is what is known of products that were measured, and `direct` as of `WriteProducts`.
    `outlines` says what becomes of kernels whose code is kept; with them only `build_kernels` takes
    the module, for a library. Where instruments watch, there are none: they want the kernels.
    """
    register_vector_math()
    family = family_of(target, has_half=has_half, records=records, direct=direct)
    known = None if records is no_records else records
    made_by = (target, has_half, known, direct, [*map(vars, schedule)], pass_context())
    # What is told of float16 in registers is read of kernels themselves.
    recall = recall_phase(Outlines.NEVER if has_half or is_watched() else outlines, made_by)
    phases = (
        *rewrite_phase(train_step, family, rewrites),
        *fuse_phase(family, train_step, recall),
        *schedule,
    )
    with target.to_tvm():
        return run_pipeline(phases, module)
