"""Rules and passes of kernels that several kinds of targets have."""

from tvm.s_tir import transform as S  # noqa: N812

from odtc.backends.family.family import Rule
from odtc.backends.kernels.axis.cumsum import cumsum_rules
from odtc.backends.kernels.axis.extremum import extremum_rules
from odtc.backends.kernels.axis.topk import topk_rules
from odtc.backends.kernels.draw.dropout import dropout_rules
from odtc.backends.kernels.draw.generator import random_rules
from odtc.backends.kernels.norm.batch_norm import batch_norm_rules
from odtc.backends.kernels.norm.group_norm import group_norm_rules
from odtc.backends.kernels.norm.layer_norm import layer_norm_rules
from odtc.backends.kernels.norm.normalised import normalised_rules
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.recurrent.rules import recurrent_rules
from odtc.backends.kernels.rows.cross_entropy import cross_entropy_rules
from odtc.backends.kernels.rows.passes import Lanes
from odtc.backends.kernels.rows.softmax import softmax_rules
from odtc.passes.contract import Pass, tvm_passes
from odtc.passes.ir.by_kernel import ByKernel


def row_rules(lanes: Lanes) -> dict[str, Rule]:
    """The rules of kernels that take a row at a time."""
    return (
        batch_norm_rules(lanes)
        | normalised_rules()
        | layer_norm_rules(lanes)
        | group_norm_rules(lanes)
        | softmax_rules(lanes)
        | cross_entropy_rules(lanes)
    )


def plain_rules(machine: Machine) -> dict[str, Rule]:
    """The rules of kernels that are the same for all."""
    return (
        recurrent_rules(machine)
        | dropout_rules()
        | random_rules()
        | cumsum_rules()
        | topk_rules()
        | extremum_rules()
    )


def lower_blocks(compact: Pass) -> Pass:
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
