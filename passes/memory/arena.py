"""All tensors of a step in one arena.

calls ─lifespans→ Problem ─solve→ Solution ─validate→ one storage, and tensors at offsets in it
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.tirx.buffer import BufferType

from odtc.core.artifact.memory_plan import Origin
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bindings_of, with_bindings
from odtc.passes.memory.lifespans import lifespans_of
from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT, PackingSolution
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.validate import validate
from odtc.passes.memory.record import record_of

# Attribute of a function: the record of its plan, as JSON.
RECORD = "odtc.memory_plan"

# Limit of the search: about a second. First fit alone is mostly at the bound.
_STEPS = 1_000_000
_COUNTED = 1 << 31


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Places every tensor of a function, except its results, in the function's arena.

    Attributes:
        recorded: functions that get the record of their plan as their attribute `RECORD`.
        origins: of the tensors that their variables are named by.
    """

    name: ClassVar[str] = "plan-memory"
    recorded: Sequence[str] = field(default=(), repr=False)
    origins: Sequence[Origin] = field(default=(), repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the allocations of all Relax functions."""
        planned = module.clone()
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                origins = self.origins if variable.name_hint in self.recorded else None
                planned.update_func(variable, _planned(function, origins))
        return relax.transform.Normalize()(planned)


def _planned(function: relax.Function, origins: Sequence[Origin] | None) -> relax.Function:
    problem = lifespans_of(function).problem()
    solution = solve(problem, Limit(steps=_STEPS))
    validate(problem, solution)
    planned = _placed(function, solution) if problem.buffers else function
    if origins is None:
        return planned
    record = record_of(bindings_of(function), problem, solution, origins)
    return planned.with_attr(RECORD, record.to_json())


def _placed(function: relax.Function, solution: PackingSolution) -> relax.Function:
    """The function with its tensors in one arena."""
    builder = relax.BlockBuilder()
    size = relax.ShapeExpr([solution.height])
    arena = builder.normalize(relax.op.memory.alloc_storage(size, 0, "global", "uint8"))
    storage = relax.Var("arena", arena.ty)
    bindings = [relax.VarBinding(storage, arena)]
    for number, binding in enumerate(bindings_of(function)):
        if str(number) in solution.offsets:
            shape, dtype = binding.value.args[:2]
            placed = relax.op.memory.alloc_tensor(
                storage, solution.offsets[str(number)], shape, str(dtype.value)
            )
            bindings.append(relax.VarBinding(binding.var, builder.normalize(placed)))
        else:
            bindings.append(binding)
    return with_bindings(function, bindings)


@dataclass(frozen=True)
class TakeOffsets(Pass):
    """Lets kernels' tensors begin anywhere in their storage.

    Kernels hold no blocks any more. Without this a kernel refuses a tensor that does not begin
    where its storage does. On a CPU a kernel adds the offset to an argument's address once, where
    it begins: added to each index, it would keep LLVM from folding these into addresses. The host
    cannot add to the address of a device's memory; there it is added to each index, in 32 bits if
    these can count every element: GPUs have no others, and computing the index in 64 takes them
    several instructions for each one.

    Attributes:
        to_index: whether it is.
    """

    name: ClassVar[str] = "take-offsets"
    to_index: bool = False

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the arguments of all kernels."""
        moved = module.clone()
        far = far_kernels(module) if self.to_index else None
        for variable, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc):
                is_far = far is None or variable.name_hint in far
                moved.update_func(variable, self._anywhere(function, 64 if is_far else 32))
        return moved

    def _anywhere(self, kernel: tirx.PrimFunc, bits: int) -> tirx.PrimFunc:
        arguments, views, declared = {}, {}, []
        for each in kernel.params:
            if isinstance(each.ty, BufferType):
                shape, dtype = list(each.shape), str(each.dtype)
                argument = tirx.decl_buffer(
                    shape,
                    dtype,
                    each.name,
                    elem_offset=tirx.Var(f"{each.name}_elem_offset", f"int{bits}"),
                    offset_factor=TENSOR_ALIGNMENT // np.dtype(dtype).itemsize,
                )
                arguments[each] = views[each] = argument
                if not self.to_index:
                    first = tirx.BufferLoad(argument, [tirx.const(0, "int32")] * len(shape))
                    views[each] = tirx.decl_buffer(shape, dtype, data_alignment=TENSOR_ALIGNMENT)
                    declared.append(tirx.DeclBuffer(views[each], data=tirx.address_of(first)))
        body = tvm_ffi.structural_map(kernel.body, (ir.Var, lambda var: views.get(var, var)))
        return tirx.PrimFunc(
            [arguments.get(each, each) for each in kernel.params],
            tirx.SeqStmt([*declared, body]) if declared else body,
            kernel.ret_type,
            attrs=kernel.attrs,
        )


def farthest_element(module: tvm.IRModule) -> int:
    """The largest index in kernels: the end of a tensor in its arena, in the tensor's elements."""
    functions = (each for each in module.functions.values() if isinstance(each, relax.Function))
    return max((_end(b.value) for each in functions for b in bindings_of(each)), default=0)


def far_kernels(module: tvm.IRModule) -> set[str]:
    """Kernels that are called with a tensor whose elements 32 bits cannot count in its arena."""
    found: set[str] = set()
    for function in module.functions.values():
        far: set[relax.Var] = set()
        tuples: dict[relax.Var, relax.Tuple] = {}
        for binding in bindings_of(function) if isinstance(function, relax.Function) else ():
            value = binding.value
            if isinstance(value, relax.Tuple):
                tuples[binding.var] = value
            elif isinstance(value, relax.TupleGetItem) and value.tuple_value in tuples:
                value = tuples[value.tuple_value].fields[value.index]
            if _end(value) >= _COUNTED or not far.isdisjoint(relax.analysis.free_vars(value)):
                far.add(binding.var)  # or a view of such a tensor, or a call with it
                if isinstance(value, relax.Call) and isinstance(value.op, ir.GlobalVar):
                    found.add(value.op.name_hint)
    return found


def _end(value: relax.Expr) -> int:
    """Where a tensor ends in its arena, in elements of its own type; 0 of what is none."""
    if operator_of(value) != "relax.memory.alloc_tensor":
        return 0
    _, offset, shape, dtype, *_ = value.args
    elements = math.prod(int(each) for each in shape.values)
    return int(offset.value) // np.dtype(str(dtype.value)).itemsize + elements
