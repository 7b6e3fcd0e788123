"""A training graph down to a planned VM module, in four short phases, and on to a library.

    rewrite   what the step reads and saves
    fuse      legalise to kernels, absorb transposes, fuse elementwise chains
    schedule  how each kernel runs on the target: rules that the caller brings
    plan      calls become direct, storage is planned

`build` then lowers the rest of the VM and compiles the kernels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax import transform as X  # noqa: N812

from odtc.backends.decisions import Book, nobody
from odtc.backends.families import Family, family_of
from odtc.backends.kernels.matmul import matmul
from odtc.backends.targets import Target
from odtc.backends.vector_math import register_vector_math
from odtc.core.errors import UnsupportedError
from odtc.core.kernel_marks import NORMALISED, TUNED, WINOGRAD
from odtc.core.memory_plan import Origin
from odtc.core.relax_calls import operator_of
from odtc.passes.absorb_activation import AbsorbActivation
from odtc.passes.absorb_transpose import AbsorbTranspose
from odtc.passes.contract import Pass, TvmPass, run_pipeline, tvm_passes
from odtc.passes.fuse_named import FuseNamed
from odtc.passes.group_updates import GroupUpdates
from odtc.passes.immediate_update import ImmediateUpdate
from odtc.passes.insert_checkpoints import REPEATED, STORED, InsertCheckpoints
from odtc.passes.join_reshapes import JoinReshapes
from odtc.passes.layout.select import LAYOUTS, SelectLayouts
from odtc.passes.memory.arena import RECORD, PlanMemory, farthest_element
from odtc.passes.memory.take_arena import TakeArena
from odtc.passes.name_tensors import NameTensors
from odtc.passes.order_calls import OrderCalls
from odtc.passes.read_copies import ReadCopies
from odtc.passes.read_normalised import ReadNormalised
from odtc.passes.return_loss import ReturnLoss
from odtc.passes.slice_splits import SliceSplits
from odtc.passes.write_over import WriteOver

_LOOKED_THROUGH = ["relax.astype", "relax.strided_slice", NORMALISED]
_ALLOCATE, _ALLOCATE_RESULT = "relax.memory.alloc_storage", "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class BuiltStep:
    """A function of a module that is a training step.

    Attributes:
        function: its name.
        arena_bytes: of its arena.
        record: of its memory plan, as JSON.
        repeated: what is said of calls that run again; empty where nobody asked for it.
        stored_bytes: that tensors wait in, in storage.
    """

    function: str
    arena_bytes: int
    record: str
    repeated: str
    stored_bytes: int = 0


@dataclass(frozen=True)
class Built:
    """A compiled module.

    Attributes:
        executable: what `export_library` takes.
        planned_bytes: storage of each Relax function, by name.
        half_products: kernels that multiply float16.
        steps: the training step, by each of its plans.
        tuned: kernels whose loops come from a tuning record, each with its source.
        winograd: kernels that are convolutions in Winograd's form.
        layouts: of images in the training step, as JSON; empty where nobody chose any.
    """

    executable: relax.VMExecutable
    planned_bytes: dict[str, int]
    half_products: int
    steps: tuple[BuiltStep, ...]
    tuned: dict[str, str]
    winograd: tuple[str, ...] = ()
    layouts: str = ""

    @property
    def stored_bytes(self) -> int:
        """Bytes that any of the steps needs in storage."""
        return max((step.stored_bytes for step in self.steps), default=0)


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
        TvmPass("LegalizeOps", lambda: X.LegalizeOps(family.rules, skip_ops=_LOOKED_THROUGH)),
        *name_tensors(train_step),
        # A tuple that is only taken apart again, as of the gradient of a split, is none: FuseOps
        # mixes up the arguments of a kernel that takes elements of several tuples.
        *tvm_passes(X.CanonicalizeBindings, X.DeadCodeElimination),
        TvmPass("LegalizeOps", lambda: X.LegalizeOps(family.rules)),
        *tvm_passes(X.AnnotateTIROpPattern, X.FoldConstant),
        FuseNamed(train_step, family.most_fused),
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
) -> Built:
    """Plans and compiles what `to_kernels` returns, or `in_order` of it.

    Args:
        scheduled: the module; its calls in their order, where any of them runs again.
        target: what to compile for, resolved.
        train_step: name of the training step, if there is one.
        origins: of the tensors that its variables are named by.
        checkpoints: what lets calls of it run again, if anything does.

    Raises:
        UnsupportedError: an arena has more elements than the target's kernels can count, or a
            kernel is beyond a limit of its GPU.
    """
    tvm_target = target.to_tvm()
    family = family_of(target)
    with tvm_target:
        planned = run_pipeline(plan_phase(train_step, family, origins, checkpoints), scheduled)
        _check_countable(planned, family, target)
        names = _steps(train_step, checkpoints)
        called = run_pipeline([TakeArena(names)], planned)
        with family.compiling(), _unchecked():
            executable = tvm.compile(called, tvm_target, relax_pipeline=vm_phase())
    return Built(
        executable,
        storage_bytes(planned),
        half_products(scheduled),
        tuple(_built_step(name, planned[name]) for name in names),
        tuned_kernels(scheduled),
        winograd_kernels(scheduled),
        str(scheduled[train_step].attrs.get(LAYOUTS, "")) if train_step else "",
    )


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
            f"a tensor of the step ends {farthest:,} elements behind the beginning of its arena; "
            f"kernels of {target.name} can count {most:,}",
            where=target.spec,
            hint="give a --memory-budget, or a smaller batch",
        )


def _built_step(name: str, function: relax.Function) -> BuiltStep:
    arena = sum(size for op, size in _allocations(function) if op == _ALLOCATE)
    record, repeated = (str(function.attrs.get(each, "")) for each in (RECORD, REPEATED))
    return BuiltStep(name, arena, record, repeated, int(function.attrs.get(STORED, 0)))


def to_kernels(
    module: tvm.IRModule,
    target: Target,
    train_step: str | None,
    schedule: Sequence[Pass],
    rewrites: Sequence[Pass] = (),
    *,
    has_half: bool = False,
    book: Book = nobody,
    direct: bool = False,
) -> tvm.IRModule:
    """The module as calls of scheduled kernels; arguments as of `build`.

    `book` is what is known of products that were measured, and `direct` as of `WriteProducts`.
    """
    register_vector_math()
    family = family_of(target, has_half=has_half, book=book, direct=direct)
    phases = (
        *rewrite_phase(train_step, family, rewrites),
        *fuse_phase(family, train_step),
        *schedule,
    )
    with target.to_tvm():
        return run_pipeline(phases, module)


def storage_bytes(module: tvm.IRModule) -> dict[str, int]:
    """Bytes of planned storage in each Relax function."""
    return {
        variable.name_hint: sum(size for _, size in _allocations(function))
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    }


def tuned_kernels(module: tvm.IRModule) -> dict[str, str]:
    """Kernels whose loops come from a tuning record, each with its source."""
    return {
        variable.name_hint: str(function.attrs[TUNED])
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and function.attrs and TUNED in function.attrs
    }


def winograd_kernels(module: tvm.IRModule) -> tuple[str, ...]:
    """Kernels that are convolutions in Winograd's form, by name."""
    return tuple(
        sorted(
            variable.name_hint
            for variable, function in module.functions_items()
            if isinstance(function, tirx.PrimFunc) and function.attrs and WINOGRAD in function.attrs
        )
    )


def half_products(module: tvm.IRModule) -> int:
    """Kernels whose sums are float16 in registers."""
    return sum(
        isinstance(function, tirx.PrimFunc) and _has_half_sums(function)
        for _, function in module.functions_items()
    )


def _has_half_sums(function: tirx.PrimFunc) -> bool:
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, blocks.append))
    buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
    return any(
        each.scope() == "local" and str(each.dtype).startswith("float16") for each in buffers
    )


def _allocations(function: relax.Function) -> list[tuple[str, int]]:
    """The allocations of a function: of storage or of a result's tensor, and how many bytes."""
    found: list[tuple[str, int]] = []

    def visit(expression: relax.Expr) -> None:
        op_name = operator_of(expression)
        if op_name == _ALLOCATE:
            found.append((op_name, int(expression.args[0].values[0])))
        elif op_name == _ALLOCATE_RESULT:
            shape = [int(size) for size in expression.args[0].values]
            dtype = str(expression.args[1].value)
            found.append((op_name, math.prod(shape) * np.dtype(dtype).itemsize))

    relax.analysis.post_order_visit(function.body, visit)
    return found
