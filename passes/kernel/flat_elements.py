"""On CPUs kernels that go through dense tensors by positions read views without axes.

    w[at // 9, at % 9 // 3, at % 3]
      ─flat-elements→
    view[at]

Where a position is a chunk's start and more, TVM simplifies each index by itself, and does not find
that together they are the position again: LLVM saw no neighbours, and made no vectors of updates of
convolutions' weights. A GPU keeps the indices, as its kernels take no views.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.tirx.buffer import BufferType

from odtc.core.ir.flat_positions import indices_of
from odtc.passes.contract import Pass


@dataclass(frozen=True)
class FlatElements(Pass):
    """Gives kernels views of arguments whose elements they find by their positions."""

    name: ClassVar[str] = "flat-elements"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites kernels that still are blocks."""
        module = module.clone()
        for variable, kernel in list(module.functions_items()):
            if isinstance(kernel, tirx.PrimFunc) and isinstance(kernel.body, s_tir.SBlockRealize):
                module.update_func(variable, _flat(kernel))
        return module


def _flat(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    arguments = _found_by_positions(kernel)
    views: dict[ir.Var, Any] = {}

    def view_of(buffer: ir.Var) -> Any:
        if buffer not in views:
            size = math.prod(int(each) for each in buffer.shape)
            views[buffer] = tirx.decl_buffer([size], str(buffer.dtype), f"{buffer.name}_flat")
        return views[buffer]

    def read(load: Any) -> ir.Expr:
        position = _position(load.source, load.indices) if load.source in arguments else None
        return load if position is None else tirx.BufferLoad(view_of(load.source), [position])

    def write(store: tirx.BufferStore) -> tirx.Stmt:
        position = _position(store.buffer, store.indices) if store.buffer in arguments else None
        if position is None:
            return store
        return tirx.BufferStore(view_of(store.buffer), store.value, [position])

    rewrites = ((ir.TensorLoad, read), (tirx.BufferStore, write))
    root = kernel.body.block
    body = tvm_ffi.structural_map(root.body, rewrites)
    if not views:
        return kernel
    declared = [tirx.DeclBuffer(view, data=_start(buffer)) for buffer, view in views.items()]
    block = s_tir.stmt.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt([*declared, body]),
        root.init,
        root.alloc_buffers,
        root.match_buffers,
    )
    realize = s_tir.stmt.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, block)
    return tirx.PrimFunc(kernel.params, realize, kernel.ret_type, attrs=kernel.attrs)


def _found_by_positions(kernel: tirx.PrimFunc) -> set[ir.Var]:
    """Arguments of which all elements are: for LLVM a view and its tensor are apart."""
    found = {each for each in kernel.params if isinstance(each.ty, BufferType)}

    def look(buffer: ir.Var, indices: Any) -> None:
        if buffer in found and _position(buffer, indices) is None:
            found.remove(buffer)

    body = kernel.body.block.body
    tvm_ffi.structural_walk(body, (ir.TensorLoad, lambda load: look(load.source, load.indices)))
    tvm_ffi.structural_walk(body, (tirx.BufferStore, lambda each: look(each.buffer, each.indices)))
    return found


def _position(buffer: ir.Var, indices: Any) -> ir.Expr | None:
    """The position whose indices these are, of a tensor with axes."""
    if len(indices) < 2:
        return None
    first = indices[0]
    position = first.a if isinstance(first, tirx.FloorDiv) else first
    wanted = indices_of(position, [int(size) for size in buffer.shape])
    same = all(map(tvm_ffi.structural_equal, wanted, indices))
    # Nothing but zeros says nothing of a position.
    return position if same and not isinstance(position, tirx.IntImm) else None


def _start(buffer: ir.Var) -> ir.Expr:
    zeros = [tirx.const(0, "int32") for _ in buffer.shape]
    return tirx.address_of(tirx.BufferLoad(buffer, zeros))
