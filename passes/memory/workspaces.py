"""Turns the workspaces of kernels, such as packed operands, into an argument of each.

A kernel that allocates for itself asks the runtime, which keeps what it gave once, for each thread
and beside all that is planned. As an argument that is alive for one call, a workspace lies in the
arena, where there is room at that time.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of, with_bindings
from odtc.passes.ir.tensor_bytes import buffer_bytes
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT

# Statements that hold others, by exact type, as each statement is tested.
_HOLDING = frozenset([tirx.SeqStmt, tirx.For, tirx.IfThenElse])
# TVM puts smaller ones on the stack.
_SMALLEST = 1024


@dataclass(frozen=True)
class LiftWorkspaces(Pass):
    """Hoists the allocations out of kernels, to before their calls.

    Kernels hold no blocks any more, and are called directly. A workspace within a parallel loop
    exists once for each slot; such a loop runs over slots, each with a share of its iterations.

    Attributes:
        slots: the most threads that run a kernel.

    Raises:
        ValueError: a kernel allocates in a statement that is no loop, condition or sequence.
    """

    name: ClassVar[str] = "lift-workspaces"
    slots: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all kernels and calls."""
        builder = relax.BlockBuilder()
        kernels: dict[ir.GlobalVar, tuple[ir.GlobalVar, int]] = {}
        functions = module.functions_items()
        for variable, kernel in functions:
            if isinstance(kernel, tirx.PrimFunc):
                function, size = _lifted(kernel, self.slots)
                kernels[variable] = builder.add_func(function, variable.name_hint), size
        lifted = builder.get()
        for variable, function in functions:
            if isinstance(function, relax.Function):
                lifted[variable.name_hint] = _with_workspaces(function, kernels)
        return relax.transform.Normalize()(lifted.with_attrs(module.attrs or {}))


def _with_workspaces(
    function: relax.Function, kernels: dict[ir.GlobalVar, tuple[ir.GlobalVar, int]]
) -> relax.Function:
    """A function that calls kernels by their new signatures."""
    builder = relax.BlockBuilder()
    bindings = []
    for binding in bindings_of(function):
        call = binding.value
        if isinstance(call, relax.Call) and call.op in kernels:
            kernel, size = kernels[call.op]
            arguments = list(call.args)
            if size:
                shape = relax.ShapeExpr([size])
                made = builder.normalize(relax.op.builtin.alloc_tensor(shape, "uint8", 0))
                arguments.append(relax.Var("workspace", made.ty))
                bindings.append(relax.VarBinding(arguments[-1], made))
            called = relax.Call(kernel, arguments, call.attrs, call.ty_args)
            bindings.append(relax.VarBinding(binding.var, called))
        else:
            bindings.append(binding)
    return with_bindings(function, bindings)


def _lifted(kernel: tirx.PrimFunc, slots: int) -> tuple[tirx.PrimFunc, int]:
    """A kernel that takes its workspace as an argument, and its bytes; 0 where it needs none."""
    heights = Heights(slots)
    size = heights.of(kernel.body)
    if not size:
        tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, _refuse_workspace))
        return kernel, 0
    workspace = tirx.decl_buffer([size], "uint8", "workspace")
    body = _Placing(workspace, heights).placed(kernel.body, tirx.const(0, "int64"))
    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, _refuse_workspace))
    function = tirx.PrimFunc([*kernel.params, workspace], body, kernel.ret_type, attrs=kernel.attrs)
    return function, size


def _refuse_workspace(allocation: tirx.AllocBuffer) -> None:
    if _bytes(allocation):
        raise ValueError(f"{allocation.buffer.name} is allocated where no workspace is looked for")


@dataclass(frozen=True)
class Heights:
    """Bytes of the workspaces that statements need at once: they are stacked by their scopes.

    Attributes:
        slots: the most threads that run a statement.
    """

    slots: int
    _known: dict[tirx.Stmt, int] = field(default_factory=dict, repr=False)

    def of(self, statement: tirx.Stmt) -> int:
        """The bytes of a statement without blocks."""
        if type(statement) not in _HOLDING:
            return 0
        if statement not in self._known:
            self._known[statement] = self._found(statement)
        return self._known[statement]

    def _found(self, statement: tirx.Stmt) -> int:
        if isinstance(statement, tirx.SeqStmt):
            taken = height = 0
            for each in statement:
                height = max(height, taken + self.of(each))
                taken += _bytes(each)
            return max(height, taken)
        height = max(map(self.of, _bodies(statement)))
        return height * _slots(statement, self.slots) if _is_parallel(statement) else height


@dataclass(frozen=True)
class _Placing:
    """Puts workspaces at their places in one buffer."""

    workspace: tirx.Buffer
    heights: Heights

    def placed(self, statement: tirx.Stmt, start: ir.Expr) -> tirx.Stmt:
        """A statement whose workspaces lie at `start` and after it."""
        if not self.heights.of(statement):
            return statement
        if isinstance(statement, tirx.SeqStmt):
            return self._sequence(statement, start)
        if _is_parallel(statement):
            return self._parallel(statement, start)
        if isinstance(statement, tirx.For):
            body = self.placed(statement.body, start)
            return tirx.For(
                statement.loop_var,
                statement.min,
                statement.extent,
                statement.kind,
                body,
                annotations=statement.annotations,
            )
        cases = [self.placed(each, start) for each in _bodies(statement)]
        return tirx.IfThenElse(statement.condition, *cases, *[None] * (2 - len(cases)))

    def _sequence(self, sequence: tirx.SeqStmt, start: ir.Expr) -> tirx.Stmt:
        statements = []
        for each in sequence:
            if _bytes(each):
                first = tirx.BufferLoad(self.workspace, [start])
                statements.append(tirx.DeclBuffer(each.buffer, data=tirx.address_of(first)))
                start = start + _bytes(each)
            else:
                statements.append(self.placed(each, start))
        return tirx.SeqStmt(statements)

    def _parallel(self, loop: tirx.For, start: ir.Expr) -> tirx.Stmt:
        """Lets the iterations of a slot run one after the other, in the same workspace."""
        count, slots = int(loop.extent), _slots(loop, self.heights.slots)
        slot = tirx.Var("slot", loop.loop_var.ty.dtype)
        stride = self.heights.of(loop.body)
        body = self.placed(loop.body, start + tirx.Cast("int64", slot) * stride)
        first = slot * count // slots
        last = (slot + 1) * count // slots
        share = tirx.For(loop.loop_var, loop.min + first, last - first, tirx.ForKind.SERIAL, body)
        return tirx.For(
            slot, tirx.const(0, slot.ty.dtype), tirx.const(slots, slot.ty.dtype), loop.kind, share
        )


def _bytes(statement: tirx.Stmt) -> int:
    """Bytes of the workspace that a statement allocates for those after it; mostly 0."""
    if not isinstance(statement, tirx.AllocBuffer):
        return 0
    size = buffer_bytes(statement.buffer)
    if statement.buffer.scope() == "global" and size < _SMALLEST:
        return 0
    return -(-size // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT


def _is_parallel(statement: tirx.Stmt) -> bool:
    return isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.PARALLEL


def _slots(loop: tirx.For, most: int) -> int:
    return min(most, int(loop.extent))


def _bodies(statement: tirx.Stmt) -> list[tirx.Stmt]:
    """The statements within a loop or a condition."""
    if isinstance(statement, tirx.For):
        return [statement.body]
    if isinstance(statement, tirx.IfThenElse):
        return [each for each in (statement.then_case, statement.else_case) if each is not None]
    return []
