"""Kernels and passes of CPUs."""

from odtc.backends.cost.call_cost import worth_copies
from odtc.backends.family.family import Family
from odtc.backends.family.rules import lower_blocks, plain_rules, row_rules
from odtc.backends.kernels.attention.rules import attention_rules
from odtc.backends.kernels.channels_last.concat import concat_last_rules
from odtc.backends.kernels.channels_last.relayout import relayout_rules
from odtc.backends.kernels.convolution.loops import CONVOLUTION_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.gather.take import take_rules
from odtc.backends.kernels.gather.take_add import take_add
from odtc.backends.kernels.gather.take_update import take_update
from odtc.backends.kernels.grouped.depthwise import DEPTHWISE_LOOPS
from odtc.backends.kernels.grouped.rules import grouped_rules
from odtc.backends.kernels.pool.avg_pool2d import avg_pool2d_rules
from odtc.backends.kernels.pool.max_pool2d import max_pool2d_rules
from odtc.backends.kernels.product.loops import MATMUL_LOOPS
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.kernels.rows.plane_sums import plane_sum_rules
from odtc.backends.targets import Target
from odtc.backends.vector_math import grown_functions
from odtc.backends.write_products import WriteProducts
from odtc.passes.graph.read_quantised import ReadQuantised
from odtc.passes.kernel.compact_allocations import CompactAllocations
from odtc.passes.kernel.flat_elements import FlatElements
from odtc.passes.kernel.gather_marks import GatherMarks
from odtc.passes.kernel.hide_remainders import HideRemainders
from odtc.passes.kernel.keep_nan import GROWN, by_comparison, by_instruction
from odtc.passes.memory.arena import TakeOffsets
from odtc.passes.memory.workspaces import LiftWorkspaces
from odtc.passes.rows.add_rows import AddRows
from odtc.passes.rows.update_rows import UpdateRows

# What emits the loops of products on a CPU.
CPU_LOOPS = CONVOLUTION_LOOPS | DEPTHWISE_LOOPS | MATMUL_LOOPS


def cpu_family(target: Target, has_half: bool) -> Family:
    """The family of a CPU; the arguments are those of `family_of`."""
    machine = machine_of(target.vector_bits, has_half=has_half, caches=target.caches)
    slots = target.threads or 1
    return Family(
        (UpdateRows(take_update), AddRows(take_add), ReadQuantised()),
        grouped_rules(convolution_rules(), machine)
        | max_pool2d_rules(machine.lanes)
        | avg_pool2d_rules(machine.lanes)
        | row_rules(machine.lanes)
        | attention_rules(machine)
        | plane_sum_rules(machine.lanes)
        | take_rules()
        | relayout_rules(machine.lanes)
        | concat_last_rules(machine.lanes)
        | plain_rules(machine),
        WriteProducts(machine, CPU_LOOPS),
        (FlatElements(), lower_blocks(CompactAllocations()), GatherMarks()),
        LiftWorkspaces(slots),
        TakeOffsets(),
        slots,
        by_instruction if target.triple.startswith("aarch64") else by_comparison,
        apart=True,
        grown={**grown_functions(), **GROWN},
        hides=(HideRemainders(),),
        most_copies=worth_copies(target),
        writes_over=True,
    )
