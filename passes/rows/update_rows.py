"""Plain gradient descent changes only those rows of an embedding that the batch reads.

The gradient of reading rows of a table is as large as the table, and zero for all other rows:

    g = take_gradient(adjoint, table, indices);  update(table, g, rate, loss)
      ─update-rows→
    update_rows(table, adjoint, indices, rate, loss)

Where the optimizer has a momentum, decays weights or keeps averages, all rows move in each step,
and clipping by norm and accumulators read the whole gradient: these updates stay as they are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax, tirx

from odtc.core.ir.relax_calls import is_call
from odtc.core.ir.update_marks import PLAIN_UPDATE
from odtc.passes.contract import Pass
from odtc.passes.graph.immediate_update import IN_PLACE
from odtc.passes.ir.bindings import bind, bindings_of, readers_of, rebuilding

# From rows and columns of the table, the number of indices, their dtype, and what the learning rate
# is multiplied by, to a kernel `(table, adjoint [count, columns], indices [count], rate, loss)`.
Kernel = Callable[[int, int, int, str, float], tirx.PrimFunc]

_GRADIENT = "relax.grad.take_backward"
# Dimensions of a table.
_TABLE = 2


@dataclass(frozen=True)
class UpdateRows(Pass):
    """Makes one call of the gradient of a table and its plain update, in all functions.

    Tables of no more rows than are read keep their gradient: it is no larger than its adjoint.

    Attributes:
        kernel: makes the kernel of such a call.
    """

    name: ClassVar[str] = "update-rows"
    kernel: Kernel = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions that have such updates, which are one dataflow block each."""
        # Other names of a gradient that nothing reads count as readers.
        module = relax.transform.DeadCodeElimination()(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                found = _updates_in(module, function)
                if found:
                    module = self._rewritten(module, variable.name_hint, found)
        return relax.transform.DeadCodeElimination()(module)

    def _rewritten(
        self, module: tvm.IRModule, name: str, found: Mapping[relax.Var, "_Update"]
    ) -> tvm.IRModule:
        with rebuilding(module, name) as builder:
            for binding in bindings_of(module[name]):
                update = found.get(binding.var)
                value = update.call(builder, self.kernel) if update else binding.value
                bind(builder, binding.var, value)
        return builder.finalize()


@dataclass(frozen=True)
class _Update:
    """An update of a table of float32.

    Attributes:
        table: it.
        adjoint: of what was read of it.
        indices: of the rows that were read.
        rate: the learning rate.
        loss: that is marked where what is written is not finite.
        factor: of the learning rate.
    """

    table: relax.Var
    adjoint: relax.Expr
    indices: relax.Expr
    rate: relax.Expr
    loss: relax.Expr
    factor: float

    def call(self, builder: relax.BlockBuilder, kernel: Kernel) -> relax.Call:
        """The call that makes it."""
        rows, columns = _shape(self.table)
        count = math.prod(_shape(self.indices))
        made = kernel(rows, columns, count, str(self.indices.ty.dtype), self.factor)
        return relax.op.call_tir_inplace(
            builder.add_func(made, "update_rows"),
            relax.Tuple(
                [
                    self.table,
                    builder.emit(relax.op.reshape(self.adjoint, (count, columns))),
                    builder.emit(relax.op.reshape(self.indices, (count,))),
                    self.rate,
                    self.loss,
                ]
            ),
            [0],
            [self.table.ty],
        )


def _updates_in(module: tvm.IRModule, function: relax.Function) -> dict[relax.Var, _Update]:
    """The plain updates of tables in a function, by the variables that they are bound to."""
    values = {binding.var: binding.value for binding in bindings_of(function)}
    readers = readers_of(function)
    found = {}
    for variable, value in values.items():
        factor = _factor(module, value)
        if factor is None:
            continue
        table, gradient, rate, _, loss = value.args[1].fields
        made = values.get(gradient)
        if is_call(made, _GRADIENT) and readers[gradient] == 1 and _is_of(made, table):
            adjoint, _, indices = made.args
            found[variable] = _Update(table, adjoint, indices, rate, loss, factor)
    return found


def _factor(module: tvm.IRModule, value: relax.Expr) -> float | None:
    """The factor of the learning rate in a plain update; None for others."""
    if not is_call(value, IN_PLACE):
        return None
    factor = (module[value.args[0]].attrs or {}).get(PLAIN_UPDATE)
    return None if factor is None else float(factor.value)


def _is_of(gradient: relax.Call, table: relax.Expr) -> bool:
    """Whether a gradient is that of some of a table's rows."""
    adjoint, read, indices = gradient.args
    shape = _shape(read)
    return (
        read.same_as(table)
        and len(shape) == _TABLE
        and int(gradient.attrs.axis) == 0
        and {str(each.ty.dtype) for each in (adjoint, read)} == {"float32"}
        and math.prod(_shape(indices)) < shape[0]
    )


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
