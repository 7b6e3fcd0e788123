"""A training graph down to a planned VM module, in four short phases, and on to a library.

    rewrite   what the step reads and saves
    fuse      legalise to kernels, absorb transposes, fuse elementwise chains
    schedule  how each kernel runs on the target: rules that the caller brings
    plan      calls become direct, storage is planned

`build` then lowers the rest of the VM and compiles the kernels.
"""

from collections.abc import Sequence

import tvm
from tvm.relax import transform as X  # noqa: N812

from odtc.backends.built import Built, built_of
from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.families import Family, family_of
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.legalize import Legalize
from odtc.backends.objects.compiling import compiled
from odtc.backends.objects.kernel_objects import pass_context
from odtc.backends.objects.outlines import Outlines, recall_phase
from odtc.backends.targets import Target
from odtc.backends.vector_math import register_vector_math
from odtc.core.artifact.memory_plan import Origin
from odtc.core.errors import UnsupportedError
from odtc.core.ir.kernel_marks import NORMALISED
from odtc.passes.contract import Pass, TvmPass, run_pipeline, tvm_passes
from odtc.passes.graph.absorb_activation import AbsorbActivation
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from odtc.passes.graph.fold_constants import FoldConstants
from odtc.passes.graph.immediate_update import ImmediateUpdate
from odtc.passes.graph.join_reshapes import JoinReshapes
from odtc.passes.graph.name_tensors import NameTensors
from odtc.passes.graph.read_copies import ReadCopies
from odtc.passes.graph.read_normalised import ReadNormalised
from odtc.passes.graph.return_loss import ReturnLoss
from odtc.passes.graph.slice_splits import SliceSplits
from odtc.passes.kernel.fuse_named import FuseNamed
from odtc.passes.kernel.group_updates import GroupUpdates
from odtc.passes.kernel.keep_nan import KeepNan
from odtc.passes.kernel.note_needs import NoteNeeds
from odtc.passes.layout.select import SelectLayouts
from odtc.passes.memory.arena import PlanMemory, farthest_element
from odtc.passes.memory.take_arena import TakeArena
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from odtc.passes.schedule.order_calls import OrderCalls
from odtc.passes.schedule.write_over import WriteOver

_LOOKED_THROUGH = ["relax.astype", "relax.strided_slice", NORMALISED]


def rewrite_phase(
    train_step: str | None, family: Family, rewrites: Sequence[Pass] = ()
) -> tuple[Pass, ...]:
    """Relax operators to better ones; `rewrites` are the caller's own."""
    if train_step is None:
        return tuple(rewrites)
    absorb = AbsorbActivation(train_step)
    # Layouts are chosen first: the rest of a step that keeps them is as if nobody had asked.
    layouts = [each for each in rewrites if isinstance(each, SelectLayouts)]
    others = [each for each in rewrites if each not in layouts]
    most = family.most_copies
    normal = (absorb, *layouts, ReadNormalised(train_step, most)) if most else layouts
    # What is saved is decided before it is rounded.
    first = (SliceSplits(train_step), ReadCopies(train_step))
    return (*name_tensors(train_step), *normal, *first, *others, absorb)


def fuse_phase(family: Family, train_step: str | None = None) -> tuple[Pass, ...]:
    """Relax operators to fused kernels."""
    return (
        *family.rewrites,
        JoinReshapes(),
        AbsorbTranspose(matmul),
        # Casts and slices are kept at first: kernels look through them for what is stored.
        TvmPass("LegalizeOps", Legalize(family.rules, _LOOKED_THROUGH, stay=True)),
        *name_tensors(train_step),
        # A tuple that is only taken apart again, as of the gradient of a split, is none: FuseOps
        # mixes up the arguments of a kernel that takes elements of several tuples.
        *tvm_passes(X.CanonicalizeBindings, X.DeadCodeElimination),
        TvmPass("LegalizeOps", Legalize(family.rules, _LOOKED_THROUGH, stay=False)),
        *tvm_passes(X.AnnotateTIROpPattern),
        FoldConstants(),
        FuseNamed(train_step, family.most_fused, family.grown),
        *tvm_passes(
            X.FuseTIR,
            # Before the kernels are scheduled: a scheduled reshape is not known for one any more.
            X.RewriteDataflowReshape,
            X.DeadCodeElimination,
        ),
        family.products,
    )


def name_tensors(train_step: str | None) -> tuple[Pass, ...]:
    """Names that say where tensors come from, for what has none so far."""
    return (NameTensors(train_step),) if train_step else ()


def plan_phase(
    train_step: str | None,
    family: Family,
    origins: Sequence[Origin] = (),
    checkpoints: InsertCheckpoints | None = None,
) -> tuple[Pass, ...]:
    """Kernel calls to direct calls on planned storage. Nothing may merge or reorder calls after.

    Args:
        train_step: name of the training step.
        family: of the target.
        origins: of the tensors that the variables of the training step are named by.
        checkpoints: what lets calls run again, which have their order by then.
    """
    steps = _steps(train_step, checkpoints)
    return (
        *([checkpoints] if checkpoints else order_phase(train_step, family)),
        *tvm_passes(X.CallTIRRewrite),
        *([ReturnLoss(steps)] if steps else []),
        family.workspaces,
        PlanMemory(steps, origins),
        family.offsets,
        *family.halves,
        KeepNan(family.keeps_nan),
        *family.checks,
    )


def _steps(train_step: str | None, checkpoints: InsertCheckpoints | None) -> tuple[str, ...]:
    """Names of the functions that are training steps."""
    if checkpoints:
        return checkpoints.functions
    return (train_step,) if train_step else ()


def order_phase(
    train_step: str | None, family: Family, *, may_wait: bool = False
) -> tuple[Pass, ...]:
    """Kernel calls in the order in which they run.

    Args:
        train_step: name of the training step.
        family: of the target.
        may_wait: whether tensors may wait in storage, which gives back what was stored: what is
            changed in place after that would be lost.
    """
    writes_over = family.writes_over and not may_wait
    return (
        *tvm_passes(X.ToNonDataflow, X.RemovePurityChecking),
        *family.blocks,
        NoteNeeds(family.slots),
        *([ImmediateUpdate(train_step)] if train_step else []),
        *([WriteOver(train_step)] if train_step and writes_over else []),
        OrderCalls(family.slots),
        *_grouping(train_step, family),
    )


def _grouping(train_step: str | None, family: Family) -> tuple[Pass, ...]:
    """What merges updates, where a call takes longer than what it does."""
    if train_step is None or family.update_buffers is None:
        return ()
    return (GroupUpdates(train_step, family.update_buffers),)


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
    tvm_target = target.to_tvm()
    family = family_of(target)
    with tvm_target:
        planned = run_pipeline(plan_phase(train_step, family, origins, checkpoints), scheduled)
        _check_countable(planned, family, target)
        names = _steps(train_step, checkpoints)
        called = run_pipeline([TakeArena(names)], planned)
        with family.compiling(), _unchecked():
            made = compiled(called, tvm_target, vm_phase(), apart=apart and family.apart)
    return built_of(made, scheduled, planned, train_step, names)


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
    the module, for a library.
    """
    register_vector_math()
    family = family_of(target, has_half=has_half, records=records, direct=direct)
    *fuse, products = fuse_phase(family, train_step)
    known = None if records is no_records else records
    made_by = (target, has_half, known, direct, [*map(str, schedule)], pass_context())
    phases = (
        *rewrite_phase(train_step, family, rewrites),
        *fuse,
        # What is told of float16 in registers is read of kernels themselves.
        *recall_phase(Outlines.NEVER if has_half else outlines, made_by),
        products,
        *schedule,
    )
    with target.to_tvm():
        return run_pipeline(phases, module)
