"""The passes of this layer by name, and TVM's own."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache

import tvm
from tvm import relax, s_tir, tirx

from odtc.passes.chunks.chunk_logits import ChunkLogits
from odtc.passes.contract import Pass, TvmPass
from odtc.passes.graph.absorb_activation import AbsorbActivation
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from odtc.passes.graph.fold_constants import FoldConstants
from odtc.passes.graph.half_storage import HalfStorage
from odtc.passes.graph.immediate_update import ImmediateUpdate
from odtc.passes.graph.join_reshapes import JoinReshapes
from odtc.passes.graph.name_tensors import NameTensors
from odtc.passes.graph.read_copies import ReadCopies
from odtc.passes.graph.read_normalised import ReadNormalised
from odtc.passes.graph.read_quantised import ReadQuantised
from odtc.passes.graph.recompute_frozen import RecomputeFrozen
from odtc.passes.graph.return_loss import ReturnLoss
from odtc.passes.graph.slice_splits import SliceSplits
from odtc.passes.graph.spell_out_attention import SpellOutAttention
from odtc.passes.ir.by_kernel import ByKernel
from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.check_launches import CheckLaunches
from odtc.passes.kernel.compact_allocations import CompactAllocations
from odtc.passes.kernel.flat_elements import FlatElements
from odtc.passes.kernel.fuse_named import FuseNamed
from odtc.passes.kernel.gather_marks import GatherMarks
from odtc.passes.kernel.group_updates import GroupUpdates
from odtc.passes.kernel.half_in_memory import HalfInMemory
from odtc.passes.kernel.hide_remainders import HideRemainders
from odtc.passes.kernel.keep_nan import KeepNan
from odtc.passes.kernel.narrow_indices import NarrowIndices
from odtc.passes.kernel.note_needs import NoteNeeds
from odtc.passes.layout.select import SelectLayouts
from odtc.passes.memory.arena import PlanMemory, TakeOffsets
from odtc.passes.memory.device_workspaces import LiftDeviceWorkspaces
from odtc.passes.memory.take_arena import TakeArena
from odtc.passes.memory.workspaces import LiftWorkspaces
from odtc.passes.rows.add_rows import AddRows
from odtc.passes.rows.update_rows import UpdateRows
from odtc.passes.saved.recompute_maps import RecomputeMaps
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from odtc.passes.schedule.note_writes import NoteWrites
from odtc.passes.schedule.order_calls import OrderCalls
from odtc.passes.schedule.write_over import WriteOver


def by_name(*kinds: type[Pass]) -> Mapping[str, type[Pass]]:
    """A table of passes by name."""
    return {each.name: each for each in kinds}


PASSES = by_name(
    *(AbsorbActivation, AbsorbTranspose, AddRows, ChunkLogits, FoldConstants, HalfStorage),
    *(ImmediateUpdate, JoinReshapes, NameTensors, ReadCopies, ReadNormalised, ReadQuantised),
    *(RecomputeFrozen, RecomputeMaps, ReturnLoss, SliceSplits, SpellOutAttention, UpdateRows),
    *(ByKernel, BindLoops, CheckLaunches, CompactAllocations, FlatElements, FuseNamed),
    *(GatherMarks, GroupUpdates, HalfInMemory, HideRemainders, KeepNan, NarrowIndices, NoteNeeds),
    *(SelectLayouts,),
    *(LiftDeviceWorkspaces, LiftWorkspaces, PlanMemory, TakeArena, TakeOffsets),
    *(InsertCheckpoints, NoteWrites, OrderCalls, WriteOver),
)

# Where a name is looked for first comes first.
_MODULES = (relax.transform, s_tir.transform, tirx.transform)


@cache
def tvm_table() -> Mapping[str, TvmPass]:
    """TVM's passes that need no argument, by their names such as `tvm.FuseTIR`."""
    found: dict[str, TvmPass] = {}
    for module in _MODULES:
        for label, make in vars(module).items():
            if label[0].isupper() and inspect.isfunction(make) and _needs_nothing(make):
                made = TvmPass(label, make)
                found.setdefault(made.title, made)
    return found


def _needs_nothing(make: Callable[..., tvm.transform.Pass]) -> bool:
    return all(
        each.default is not each.empty for each in inspect.signature(make).parameters.values()
    )
