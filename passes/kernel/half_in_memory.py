"""Kernels of a GPU that hold float16 in memory, and compute with none.

What a kernel reads as float16 is widened at once, it computes in float32, and what it writes is
rounded. Both is promised by every OpenCL device, as `vload_half` and `vstore_half_rte`, and by
Vulkan devices with buffers of 16-bit numbers; arithmetic with float16 by neither. It is left to
kernels that are made for it, which hold float16 in private memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, tirx

from odtc.passes.contract import Pass

HALF, WIDE = "float16", "float32"
_CHOICES = ("prim.if_then_else", "tirx.if_then_else")


@dataclass(frozen=True)
class HalfInMemory(Pass):
    """Lets kernels that hold float16 in memory compute in float32.

    They are as they are launched: nothing reads their loads and stores any more.

    Attributes:
        by_function: whether memory is read and written by OpenCL's functions, not by casts.
        computes: whether the GPU computes with float16, so that kernels for that stay as they are.
    """

    name: ClassVar[str] = "half-in-memory"
    by_function: bool = False
    computes: bool = False

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the kernels that have anything of float16."""
        rewritten = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                rewritten.update_func(variable, kernel.with_body(self._stored(kernel.body)))
        return rewritten

    def _stored(self, body: tirx.Stmt) -> tirx.Stmt:
        """A body whose launches are rewritten, each as what it has itself asks for."""
        if _has_launches(body):
            return tirx.SeqStmt([self._stored(each) for each in body.seq])
        own = _own_halves(body)
        if own and self.computes:
            return body
        load, store = _BY_FUNCTION if self.by_function else _BY_CAST
        return _computing_wide(_allocating_wide(body, own), load, store)


def _has_launches(body: tirx.Stmt) -> bool:
    """Whether these are several launches, of which none sees another's memory."""
    return isinstance(body, tirx.SeqStmt) and all(isinstance(n, tirx.AttrStmt) for n in body.seq)


def _own_halves(body: tirx.Stmt) -> list[tirx.Buffer]:
    """Private and shared memory in float16."""
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, found.append))
    return [each.buffer for each in found if str(each.buffer.dtype) == HALF]


def _allocating_wide(body: tirx.Stmt, own: Sequence[tirx.Buffer]) -> tirx.Stmt:
    """The same, where these are float32."""
    if not own:
        return body
    wide = {
        each: tirx.decl_buffer(list(each.shape), WIDE, each.name, scope=each.scope())
        for each in own
    }
    return tvm_ffi.structural_map(body, (ir.Var, lambda each: wide.get(each, each)))


def _computing_wide(
    body: tirx.Stmt,
    load: Callable[[ir.TensorLoad], ir.Expr],
    store: Callable[[tirx.BufferStore], tirx.Stmt],
) -> tirx.Stmt:
    """A body whose expressions are float32; those inside of others are rewritten first."""

    def expression(node: ir.Expr) -> ir.Expr:
        if isinstance(node, ir.TensorLoad):
            return load(node) if _is_half(node) else node
        if isinstance(node, tirx.Cast):
            return node.value.astype(_wide(node))
        rebuild = _REBUILT.get(_kind(node))
        return rebuild(node) if rebuild and _is_half(node) else node

    def statement(node: tirx.BufferStore) -> tirx.Stmt:
        return store(node) if str(node.buffer.dtype) == HALF else node

    body = tvm_ffi.structural_map(body, (ir.Expr, expression))
    return tvm_ffi.structural_map(body, (tirx.BufferStore, statement))


def _is_half(node: ir.Expr) -> bool:
    return str(getattr(node.ty, "dtype", "")).partition("x")[0] == HALF


def _wide(node: ir.Expr) -> str:
    """The type of a value that is float16, when it is widened."""
    return str(node.ty.dtype).replace(HALF, WIDE)


def _kind(node: Any) -> str:
    """The kind of a node: the name of its class, or of the operator that it calls."""
    return str(node.op.name) if isinstance(node, ir.Call) else type(node).__name__


def _of_two(node: Any) -> ir.Expr:
    return type(node)(node.a, node.b)


# Expressions that are of the type of their operands, with operands that are wide by now.
_REBUILT: dict[str, Callable[[Any], ir.Expr]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Min", "Max"), _of_two),
    "FloatImm": lambda node: tirx.const(node.value, WIDE),
    "Broadcast": lambda node: tirx.Broadcast(node.value, node.lanes),
    "Select": lambda node: tirx.Select(node.condition, node.true_value, node.false_value),
    **dict.fromkeys(_CHOICES, lambda node: tirx.if_then_else(*node.args)),
}


def _address(source: tirx.Buffer, indices: Any) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(source, list(indices)))


def _load_function(node: Any) -> ir.Expr:
    # What is called is opaque: no pass may take two of these for one, with a store between them.
    *outer, last = node.indices
    if not isinstance(last, tirx.Ramp):
        return tirx.call_extern(WIDE, "vload_half", 0, _address(node.source, node.indices))
    # Kernels read vectors where these lie at multiples of their size.
    name = f"vloada_half{int(last.lanes)}"
    return tirx.call_extern(_wide(node), name, 0, _address(node.source, [*outer, last.base]))


def _store_function(node: tirx.BufferStore) -> tirx.Stmt:
    address = _address(node.buffer, node.indices)
    return tirx.Evaluate(tirx.call_extern("void", "vstore_half_rte", node.value, 0, address))


def _store_cast(node: tirx.BufferStore) -> tirx.Stmt:
    return tirx.BufferStore(node.buffer, tirx.Cast(HALF, node.value), list(node.indices))


_BY_CAST = (lambda node: tirx.Cast(_wide(node), node), _store_cast)
_BY_FUNCTION = (_load_function, _store_function)
