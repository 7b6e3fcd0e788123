"""Turns workspaces of GPU kernels into arguments, each a tensor of its own.

The host cannot add to the address of a device's memory, so a kernel cannot cut one workspace into
several: each lies in the arena by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of, with_bindings
from odtc.passes.ir.tensor_bytes import buffer_bytes
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT

# Drivers name files by kernels, and a file's name has at most 255 bytes.
_LONGEST_NAME = 80


@dataclass(frozen=True)
class LiftDeviceWorkspaces(Pass):
    """Hoists the allocations of device memory out of kernels, to before their calls.

    Kernels hold no blocks any more, are bound to threads, and are called directly.
    """

    name: ClassVar[str] = "lift-device-workspaces"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all kernels and calls."""
        builder = relax.BlockBuilder()
        kernels: dict[ir.GlobalVar, tuple[ir.GlobalVar, list[tirx.Buffer]]] = {}
        functions = module.functions_items()
        for variable, kernel in functions:
            if isinstance(kernel, tirx.PrimFunc):
                workspaces = device_workspaces(kernel)
                lifted = _lifted(kernel, workspaces)
                name = variable.name_hint[:_LONGEST_NAME]
                kernels[variable] = builder.add_func(lifted, name), workspaces
        lifted = builder.get()
        for variable, function in functions:
            if isinstance(function, relax.Function):
                lifted[variable.name_hint] = _with_workspaces(function, kernels)
        return relax.transform.Normalize()(lifted.with_attrs(module.attrs or {}))


def device_workspaces(kernel: tirx.PrimFunc) -> list[tirx.Buffer]:
    """Returns the buffers in the device's memory that a kernel bound to threads allocates."""
    found: list[tirx.Buffer] = []

    def visit(allocation: tirx.AllocBuffer) -> None:
        if allocation.buffer.scope() == "global":
            found.append(allocation.buffer)

    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, visit))
    return found


def device_workspace_bytes(kernel: tirx.PrimFunc) -> int:
    """Bytes of them, each at a place of its own."""
    return sum(_bytes(each) for each in device_workspaces(kernel))


def _bytes(buffer: tirx.Buffer) -> int:
    return -(-buffer_bytes(buffer) // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT


def _lifted(kernel: tirx.PrimFunc, workspaces: list[tirx.Buffer]) -> tirx.PrimFunc:
    if not workspaces:
        return kernel

    def without(sequence: tirx.SeqStmt) -> tirx.Stmt:
        kept = [
            each
            for each in sequence
            if not (isinstance(each, tirx.AllocBuffer) and each.buffer.scope() == "global")
        ]
        return tirx.SeqStmt(kept)

    body = tvm_ffi.structural_map(kernel.body, (tirx.SeqStmt, without))
    return tirx.PrimFunc([*kernel.params, *workspaces], body, kernel.ret_type, attrs=kernel.attrs)


def _with_workspaces(
    function: relax.Function,
    kernels: dict[ir.GlobalVar, tuple[ir.GlobalVar, list[tirx.Buffer]]],
) -> relax.Function:
    """A function that calls kernels by their new signatures."""
    builder = relax.BlockBuilder()
    bindings = []
    for binding in bindings_of(function):
        call = binding.value
        if not (isinstance(call, relax.Call) and call.op in kernels):
            bindings.append(binding)
            continue
        kernel, workspaces = kernels[call.op]
        arguments = list(call.args)
        for each in workspaces:
            shape = relax.ShapeExpr([int(size) for size in each.shape])
            made = builder.normalize(relax.op.builtin.alloc_tensor(shape, str(each.dtype), 0))
            arguments.append(relax.Var("workspace", made.ty))
            bindings.append(relax.VarBinding(arguments[-1], made))
        called = relax.Call(kernel, arguments, call.attrs, call.ty_args)
        bindings.append(relax.VarBinding(binding.var, called))
    return with_bindings(function, bindings)
