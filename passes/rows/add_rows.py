"""The gradient of reading rows of a table is added to the table's other gradients in place.

An embedding that is also the head of a language model gets two gradients: a product of all of its
rows, and the adjoints of those rows that the batch reads. As a tensor the second one would be as
large as the table, and zero for nearly all rows:

    g = take_gradient(adjoint, table, indices);  total = product + g
      ─add-rows→
    total = add_rows(product, adjoint, indices), in place

Nothing else reads the product, or that tensor.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax, tirx

from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.passes.contract import Pass
from odtc.passes.graph.immediate_update import IN_PLACE
from odtc.passes.ir.bindings import bind, bindings_of, readers_of, rebuilding

# From rows and columns of the table, the number of indices and their dtype, to a kernel
# `(total, adjoint [count, columns], indices [count])`.
Kernel = Callable[[int, int, int, str], tirx.PrimFunc]

_GRADIENT, _ADD = "relax.grad.take_backward", "relax.add"
# What gives a tensor of its own, not a view of another one.
_MAKERS = ("relax.matmul", _ADD, "relax.call_tir", IN_PLACE)
# Dimensions of a table.
_TABLE = 2


@dataclass(frozen=True)
class AddRows(Pass):
    """Adds such gradients in place, in all functions.

    Attributes:
        kernel: makes the kernel of such a call.
    """

    name: ClassVar[str] = "add-rows"
    kernel: Kernel = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions that have such sums, which are one dataflow block each."""
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                found = _sums_in(function)
                if found:
                    module = self._rewritten(module, variable.name_hint, found)
        return relax.transform.DeadCodeElimination()(module)

    def _rewritten(
        self, module: tvm.IRModule, name: str, found: Mapping[relax.Var, "_Sum"]
    ) -> tvm.IRModule:
        with rebuilding(module, name) as builder:
            for binding in bindings_of(module[name]):
                total = found.get(binding.var)
                value = total.call(builder, self.kernel) if total else binding.value
                bind(builder, binding.var, value)
        return builder.finalize()


@dataclass(frozen=True)
class _Sum:
    """A sum of two gradients of a table of float32.

    Attributes:
        total: the one that is a tensor.
        adjoint: of what was read of the table.
        indices: of the rows that were read.
    """

    total: relax.Var
    adjoint: relax.Expr
    indices: relax.Expr

    def call(self, builder: relax.BlockBuilder, kernel: Kernel) -> relax.Call:
        """The call that makes it."""
        (rows, columns), count = _shape(self.total), math.prod(_shape(self.indices))
        made = kernel(rows, columns, count, str(self.indices.ty.dtype))
        return relax.op.call_tir_inplace(
            builder.add_func(made, "add_rows"),
            relax.Tuple(
                [
                    self.total,
                    builder.emit(relax.op.reshape(self.adjoint, (count, columns))),
                    builder.emit(relax.op.reshape(self.indices, (count,))),
                ]
            ),
            [0],
            [self.total.ty],
        )


def _sums_in(function: relax.Function) -> dict[relax.Var, _Sum]:
    """The sums of a table's gradients, by the variables that they are bound to."""
    values = {binding.var: binding.value for binding in bindings_of(function)}
    readers = readers_of(function)
    found: dict[relax.Var, _Sum] = {}
    for variable, value in values.items():
        if not is_call(value, _ADD):
            continue
        for total, gradient in (value.args, value.args[::-1]):
            made = values.get(gradient)
            if (
                is_call(made, _GRADIENT)
                and _is_of_rows(made)
                and operator_of(values.get(total)) in _MAKERS
                and readers[total] == readers[gradient] == 1
            ):
                found[variable] = _Sum(total, made.args[0], made.args[2])
                break
    return found


def _is_of_rows(gradient: relax.Call) -> bool:
    """Whether a gradient is that of some rows of a table of float32."""
    shape = _shape(gradient)
    return (
        len(shape) == _TABLE
        and int(gradient.attrs.axis) == 0
        and str(gradient.ty.dtype) == "float32"
        and math.prod(_shape(gradient.args[2])) < shape[0]
    )


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
