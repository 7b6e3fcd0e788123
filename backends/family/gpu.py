"""Kernels and passes of GPUs."""

from dataclasses import replace
from functools import partial

from tvm.s_tir import transform as S  # noqa: N812

from odtc.backends.family.family import Family
from odtc.backends.family.rules import lower_blocks, plain_rules, row_rules
from odtc.backends.gpu.attention.rules import gpu_attention_rules, has_kernel
from odtc.backends.gpu.concat import concat_rules
from odtc.backends.gpu.grouped.loops import GROUPED_LOOPS
from odtc.backends.gpu.grouped.rules import grouped_rules as gpu_grouped_rules
from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.max_pool2d import max_pool2d_rules as gpu_max_pool2d_rules
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.gpu.rows.batch_norm import gpu_batch_norm_rules
from odtc.backends.gpu.rows.column_sums import sum_rules
from odtc.backends.gpu.rows.layer_norm import gpu_layer_norm_rules
from odtc.backends.gpu.rows.total import WriteTotals
from odtc.backends.gpu.source import compact_source
from odtc.backends.gpu.take_gradient import take_gradient_rules
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.gather.take import take_rules
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.rows.passes import Team
from odtc.backends.spirv.build import spirv_code
from odtc.backends.targets import Target, gpu_of
from odtc.backends.write_products import WriteProducts
from odtc.passes.contract import Pass, TvmPass
from odtc.passes.graph.read_quantised import ReadQuantised
from odtc.passes.graph.spell_out_attention import SpellOutAttention
from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.check_launches import CheckLaunches
from odtc.passes.kernel.half_in_memory import HalfInMemory
from odtc.passes.kernel.keep_nan import GROWN, by_question
from odtc.passes.kernel.narrow_indices import NarrowIndices
from odtc.passes.memory.arena import TakeOffsets
from odtc.passes.memory.device_workspaces import LiftDeviceWorkspaces

# What lets TVM write the code of a GPU's kernels.
GPU_CODE = {"opencl": compact_source, "vulkan": spirv_code}


# Buffers of a launch of grouped updates through Vulkan, where the device is not named: GPUs that
# are no phone's take so many, and so does Mesa's driver for CPUs.
_USUAL_BUFFERS = 32


# How kernels without a form for GPUs are written for one: each item has some scalars.
_ONE_ITEM = Machine(lanes=1, accumulators=16, cache_bytes=1 << 14)


def gpu_family(target: Target, has_half: bool) -> Family:
    """The family of a GPU; the arguments are those of `family_of`."""
    gpu = replace(gpu_of(target), multiplies_half=has_half)
    buffers, team = _buffers(target, gpu), Team(gpu.group, gpu.groups)
    return Family(
        (SpellOutAttention(has_kernel(gpu)), ReadQuantised()),
        gpu_grouped_rules(convolution_rules())
        | gpu_max_pool2d_rules()
        | gpu_attention_rules(gpu)
        | row_rules(team)
        | gpu_batch_norm_rules(gpu)
        | gpu_layer_norm_rules(gpu)
        | sum_rules(gpu)
        | take_rules()
        | take_gradient_rules()
        | (concat_rules(buffers) if buffers else {})
        | plain_rules(_ONE_ITEM),
        WriteProducts(gpu, GPU_LOOPS | GROUPED_LOOPS),
        (WriteTotals(gpu), lower_blocks(_compact()), NarrowIndices(), BindLoops(gpu.group)),
        LiftDeviceWorkspaces(),
        TakeOffsets(to_index=True),
        1,
        by_question,
        partial(GPU_CODE[target.kind], images=gpu.images),
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
    """Buffers of a launch of grouped updates."""
    if target.kind == "vulkan":
        return gpu.buffers or _USUAL_BUFFERS
    # A pointer, and where the tensor begins.
    return gpu.argument_bytes // 16


def _launches(target: Target, gpu: Gpu) -> Pass:
    """The check that the GPU takes the launches: OpenCL bounds arguments, Vulkan buffers."""
    limits = target.spec, gpu.most_items, gpu.local_bytes
    if target.kind == "opencl":
        return CheckLaunches(*limits, argument_bytes=gpu.argument_bytes)
    return CheckLaunches(*limits, buffers=_buffers(target, gpu))


def _compact() -> Pass:
    """Of all kernels: those for GPUs say nothing of what they allocate."""
    return TvmPass("CompactBufferAllocation", S.CompactBufferAllocation)
