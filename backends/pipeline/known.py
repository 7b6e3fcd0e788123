"""The passes by name, each made with what a target and a step bring."""

from collections.abc import Iterator

from odtc.backends.gpu.rows.total import WriteTotals
from odtc.backends.kernels.product.matmul import matmul, matmul_onto
from odtc.backends.legalize import Legalize
from odtc.backends.objects.outlines import RecallKernels
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.write_products import WriteProducts
from odtc.dialect.images.batch_norm import normalised
from odtc.passes.chunks.chunk_logits import ChunkLogits
from odtc.passes.contract import Pass
from odtc.passes.graph.absorb_activation import AbsorbActivation
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from odtc.passes.graph.half_storage import HalfStorage
from odtc.passes.graph.immediate_update import ImmediateUpdate
from odtc.passes.graph.name_tensors import NameTensors
from odtc.passes.graph.read_copies import ReadCopies
from odtc.passes.graph.read_normalised import ReadNormalised
from odtc.passes.graph.recompute_frozen import RecomputeFrozen
from odtc.passes.graph.return_loss import ReturnLoss
from odtc.passes.graph.slice_splits import SliceSplits
from odtc.passes.kernel.fuse_named import FuseNamed
from odtc.passes.kernel.group_updates import GroupUpdates
from odtc.passes.kernel.keep_nan import KeepNan
from odtc.passes.kernel.note_needs import NoteNeeds
from odtc.passes.memory.arena import PlanMemory
from odtc.passes.memory.take_arena import TakeArena
from odtc.passes.pipeline.table import PASSES, by_name
from odtc.passes.pipeline.text import Known
from odtc.passes.saved.recompute_maps import RecomputeMaps
from odtc.passes.schedule.order_calls import OrderCalls
from odtc.passes.schedule.write_over import WriteOver

BACKEND_PASSES = by_name(Legalize, RecallKernels, WriteProducts, WriteTotals)

_LOOKED_THROUGH = ["relax.astype", "relax.strided_slice", normalised.name]


def known_passes(of: PipelineOptions) -> Known:
    """The passes by name; the class of one that takes what neither target nor step has."""
    made = {each.title: each for each in (*_of_any(of), *_of_training(of))}
    return {**PASSES, **BACKEND_PASSES, **made, **of.brought}


def _of_any(of: PipelineOptions) -> Iterator[Pass]:
    """The passes of any module."""
    family = of.family
    yield ChunkLogits(product=matmul_onto, writes_over=family.writes_over)
    yield AbsorbTranspose(matmul)
    yield Legalize(family.rules, _LOOKED_THROUGH, stay=False)
    yield FuseNamed(of.train_step, family.most_fused, family.grown)
    yield NoteNeeds(family.slots)
    yield OrderCalls(family.slots)
    yield ReturnLoss(of.steps)
    yield PlanMemory(of.steps, of.origins)
    yield KeepNan(family.keeps_nan)
    yield TakeArena(of.steps)


def _of_training(of: PipelineOptions) -> Iterator[Pass]:
    """The passes of a training step."""
    step, family = of.train_step, of.family
    if step is None:
        return
    for kind in (
        NameTensors,
        AbsorbActivation,
        SliceSplits,
        RecomputeMaps,
        ReadCopies,
        HalfStorage,
    ):
        yield kind(step)
    yield ReadNormalised(step, family.most_copies)
    yield RecomputeFrozen(step)
    yield ImmediateUpdate(step)
    yield WriteOver(step)
    if family.update_buffers is not None:
        yield GroupUpdates(step, family.update_buffers)
