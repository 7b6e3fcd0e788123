"""Differences between kinds of targets in lowering: a row of a table for each."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from tvm import relax
from tvm.s_tir import transform as S  # noqa: N812

from odtc.backends.cost.call_cost import worth_copies
from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.gpu.concat import concat_rules
from odtc.backends.gpu.grouped_convolution import grouped_rules as gpu_grouped_rules
from odtc.backends.gpu.machine import PHONE, Gpu
from odtc.backends.gpu.max_pool2d import max_pool2d_rules as gpu_max_pool2d_rules
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.gpu.source import compact_source
from odtc.backends.kernels.attention.rules import attention_rules
from odtc.backends.kernels.axis.cumsum import cumsum_rules
from odtc.backends.kernels.axis.extremum import extremum_rules
from odtc.backends.kernels.axis.topk import topk_rules
from odtc.backends.kernels.channels_last.concat import concat_last_rules
from odtc.backends.kernels.channels_last.relayout import relayout_rules
from odtc.backends.kernels.convolution.depthwise import DEPTHWISE_LOOPS
from odtc.backends.kernels.convolution.grouped_rules import grouped_rules
from odtc.backends.kernels.convolution.loops import CONVOLUTION_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.draw.dropout import dropout_rules
from odtc.backends.kernels.draw.generator import random_rules
from odtc.backends.kernels.gather.take import take_rules
from odtc.backends.kernels.gather.take_update import take_update
from odtc.backends.kernels.norm.batch_norm import batch_norm_rules
from odtc.backends.kernels.norm.group_norm import group_norm_rules
from odtc.backends.kernels.norm.layer_norm import layer_norm_rules
from odtc.backends.kernels.norm.normalised import normalised_rules
from odtc.backends.kernels.pool.avg_pool2d import avg_pool2d_rules
from odtc.backends.kernels.pool.max_pool2d import max_pool2d_rules
from odtc.backends.kernels.product.loops import MATMUL_LOOPS
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.kernels.recurrent.rules import recurrent_rules
from odtc.backends.kernels.rows.cross_entropy import cross_entropy_rules
from odtc.backends.kernels.rows.passes import Lanes, Team
from odtc.backends.kernels.rows.softmax import softmax_rules
from odtc.backends.spirv.build import spirv_code
from odtc.backends.targets import Target, gpu_of
from odtc.backends.vector_math import grown_functions
from odtc.backends.write_products import WriteProducts
from odtc.passes.contract import Pass, TvmPass, tvm_passes
from odtc.passes.graph.spell_out_attention import SpellOutAttention
from odtc.passes.graph.update_rows import UpdateRows
from odtc.passes.ir.by_kernel import ByKernel
from odtc.passes.ir.written_out import Grown
from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.check_launches import CheckLaunches
from odtc.passes.kernel.compact_allocations import CompactAllocations
from odtc.passes.kernel.gather_marks import GatherMarks
from odtc.passes.kernel.half_in_memory import HalfInMemory
from odtc.passes.kernel.keep_nan import GROWN, NanGuard, by_comparison, by_instruction, by_question
from odtc.passes.kernel.narrow_indices import NarrowIndices
from odtc.passes.memory.arena import TakeOffsets
from odtc.passes.memory.device_workspaces import LiftDeviceWorkspaces
from odtc.passes.memory.workspaces import LiftWorkspaces

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


@dataclass(frozen=True)
class Family:
    """A kind of target.

    Attributes:
        rewrites: of operators that the family has no kernel for, or one kernel for several.
        rules: legalisation rules, by operator.
        products: the pass that writes the loops of products, for the machine that it has.
        blocks: what lowers blocks to loops, and binds these.
        workspaces: what takes the allocations out of kernels.
        offsets: what lets tensors begin anywhere in the arena.
        slots: threads that may each need a workspace.
        keeps_nan: what an extremum of floats becomes, so that it keeps what is not a number.
        compiling: a context in which TVM generates the code.
        apart: whether kernels may be compiled one by one, side by side.
        offset_bits: in which kernels count the elements of an arena.
        halves: what has kernels compute in float32 that hold float16 in memory.
        checks: of kernels as they are launched, which nothing changes any more.
        update_buffers: of a launch for several updates; None where each is a call of its own.
        most_fused: operators of a fused kernel; None for any number.
        grown: what calls of functions become in a kernel, where they are no calls any more.
        most_copies: of a normalised tensor, which kernels make as they read it, in place of one in
            memory; 0 where none does.
        writes_over: whether gradients are written over what their calls read last.
    """

    rewrites: tuple[Pass, ...]
    rules: Mapping[str, Rule]
    products: WriteProducts
    blocks: tuple[Pass, ...]
    workspaces: Pass
    offsets: Pass
    slots: int
    keeps_nan: NanGuard
    compiling: Callable[[], AbstractContextManager[None]] = nullcontext
    apart: bool = False
    offset_bits: int = 64
    halves: tuple[Pass, ...] = ()
    checks: tuple[Pass, ...] = ()
    update_buffers: int | None = None
    most_fused: int | None = None
    grown: Grown = field(default_factory=dict)
    most_copies: int = 0
    writes_over: bool = False


# What emits the loops of products on a CPU.
CPU_LOOPS = CONVOLUTION_LOOPS | DEPTHWISE_LOOPS | MATMUL_LOOPS


def family_of(
    target: Target,
    *,
    has_half: bool = False,
    records: RecordLookup = no_records,
    direct: bool = False,
) -> Family:
    """The family of a resolved target.

    Args:
        target: it.
        has_half: whether products may multiply float16.
        records: what is known of products that were measured.
        direct: as of `WriteProducts`.
    """
    family = _FAMILIES[target.kind](target, has_half)
    return replace(family, products=replace(family.products, records=records, direct=direct))


def _row_rules(lanes: Lanes) -> dict[str, Rule]:
    """The rules of kernels that take a row at a time."""
    return (
        batch_norm_rules(lanes)
        | normalised_rules()
        | layer_norm_rules(lanes)
        | group_norm_rules(lanes)
        | softmax_rules(lanes)
        | cross_entropy_rules(lanes)
    )


def _plain_rules(machine: Machine) -> dict[str, Rule]:
    """The rules of kernels that are the same for all."""
    return (
        recurrent_rules(machine)
        | dropout_rules()
        | random_rules()
        | cumsum_rules()
        | topk_rules()
        | extremum_rules()
    )


def _cpu(target: Target, has_half: bool) -> Family:
    machine, slots = machine_of(target.vector_bits, has_half=has_half), target.threads or 1
    return Family(
        (UpdateRows(take_update),),
        grouped_rules(convolution_rules(), machine)
        | max_pool2d_rules(machine.lanes)
        | avg_pool2d_rules(machine.lanes)
        | _row_rules(machine.lanes)
        | attention_rules(machine)
        | take_rules()
        | relayout_rules(machine.lanes)
        | concat_last_rules(machine.lanes)
        | _plain_rules(machine),
        WriteProducts(machine, CPU_LOOPS),
        (_lower_blocks(CompactAllocations()), GatherMarks()),
        LiftWorkspaces(slots),
        TakeOffsets(),
        slots,
        by_instruction if target.triple.startswith("aarch64") else by_comparison,
        apart=True,
        grown={**grown_functions(), **GROWN},
        most_copies=worth_copies(target),
        writes_over=True,
    )


# How kernels without a form for GPUs are written for one: each item has some scalars.
_ONE_ITEM = Machine(lanes=1, accumulators=16, cache_bytes=1 << 14)


def _gpu(target: Target, has_half: bool) -> Family:
    gpu = replace(gpu_of(target), multiplies_half=has_half)
    buffers = _buffers(target, gpu)
    return Family(
        (SpellOutAttention(),),
        gpu_grouped_rules(convolution_rules())
        | gpu_max_pool2d_rules()
        | _row_rules(Team(gpu.group, gpu.groups))
        | take_rules(chunk=1)
        | (concat_rules(buffers) if buffers else {})
        | _plain_rules(_ONE_ITEM),
        WriteProducts(gpu, GPU_LOOPS),
        (_lower_blocks(_compact()), NarrowIndices(), BindLoops(gpu.group)),
        LiftDeviceWorkspaces(),
        TakeOffsets(to_index=True),
        1,
        by_question,
        GPU_CODE[target.kind],
        offset_bits=gpu.offset_bits,
        halves=(HalfInMemory(target.kind == "opencl", target.kind in gpu.half),),
        checks=(_launches(target, gpu),),
        update_buffers=_update_buffers(target, gpu),
        # So many sums, of two tensors each, read one tensor more and write one.
        most_fused=buffers - 2 if buffers else None,
        grown=GROWN,
    )


def _buffers(target: Target, gpu: Gpu) -> int | None:
    """Of a launch, at most; None where nothing bounds them: OpenCL bounds bytes of arguments."""
    return gpu.buffers if target.kind == "vulkan" else None


def _update_buffers(target: Target, gpu: Gpu) -> int:
    """Buffers of a launch of grouped updates; what any GPU takes, where the device is not named."""
    if target.kind == "vulkan":
        return gpu.buffers or PHONE.buffers or 0
    # A pointer, and where the tensor begins.
    return gpu.argument_bytes // 16


def _launches(target: Target, gpu: Gpu) -> Pass:
    """The check that the GPU takes the launches: OpenCL bounds arguments, Vulkan buffers."""
    limits = target.spec, gpu.most_items, gpu.local_bytes
    if target.kind == "opencl":
        return CheckLaunches(*limits, argument_bytes=gpu.argument_bytes)
    return CheckLaunches(*limits, buffers=_buffers(target, gpu))


_FAMILIES: dict[str, Callable[[Target, bool], Family]] = {
    "llvm": _cpu,
    "opencl": _gpu,
    "vulkan": _gpu,
}
# What lets TVM write the code of a GPU's kernels.
GPU_CODE = {"opencl": compact_source, "vulkan": spirv_code}


def _compact() -> Pass:
    """Of all kernels: those for GPUs say nothing of what they allocate."""
    return TvmPass("CompactBufferAllocation", S.CompactBufferAllocation)


def _lower_blocks(compact: Pass) -> Pass:
    """Blocks of kernels to plain loops, and their buffers to allocations where they are used."""
    passes = (
        *tvm_passes(
            S.CanonicalizeLoop,
            S.LowerCrossThreadReduction,
            S.LowerInitBlock,
            S.PlanAndUpdateBufferAllocationLocation,
            S.ConvertBlocksToOpaque,
            S.LiftThreadBinding,
        ),
        compact,
        *tvm_passes(S.UnifyThreadBinding, S.LowerMatchBuffer, S.StmtSimplify, S.LowerOpaqueBlock),
    )
    return ByKernel(passes)
