"""Linear maps along one axis, each result from a few elements: padding by copies, resizing.

`y[.., o, ..] = sum over t of weights[o, t] * x[.., indices[o, t], ..]`, with constant tables. The
adjoint is a map of the same form, with the tables transposed: each element of x asks which results
read it. No intermediate is saved, and no result is written twice.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import ir, relax, te, tirx

# Up to so many taps are written out, so that the kernel is elementwise and can be fused.
MAX_WRITTEN_OUT = 8

# Name of the gradient rule, in `frontend/gradients/kernels.py`.
AXIS_MAP = "odtc.axis_map"


@dataclass(frozen=True)
class AxisMap:
    """The tables of a map.

    Attributes:
        size: of the axis before the map.
        indices: int32 `[results, taps]`, elements that a result reads.
        weights: float32 `[results, taps]`; zero where a result reads fewer.
    """

    size: int
    indices: np.ndarray
    weights: np.ndarray

    @classmethod
    def gather(cls, indices: npt.ArrayLike, size: int) -> "AxisMap":
        """The map that copies one element for each result."""
        column = np.asarray(indices, np.int32)[:, None]
        return cls(size, column, np.ones(column.shape, np.float32))

    def transposed(self) -> "AxisMap":
        """The adjoint map."""
        readers: list[list[tuple[int, float]]] = [[] for _ in range(self.size)]
        for result, (row, factors) in enumerate(zip(self.indices, self.weights, strict=True)):
            for index, factor in zip(row, factors, strict=True):
                if factor:
                    readers[index].append((result, factor))
        taps = max(1, *(len(each) for each in readers))
        indices, weights = np.zeros((self.size, taps), int), np.zeros((self.size, taps))
        for index, each in enumerate(readers):
            for tap, (result, factor) in enumerate(each):
                indices[index, tap], weights[index, tap] = result, factor
        return AxisMap(len(self.indices), indices.astype(np.int32), weights.astype(np.float32))


def apply_axis_map(
    builder: relax.BlockBuilder, data: relax.Expr, axis: int, tables: AxisMap
) -> relax.Var:
    """Emits the map of a tensor along an axis; it has a gradient.

    The tensor is of float32, or of any dtype where each result is a copy.
    """
    dtype = str(data.ty.dtype)
    shape = tuple(int(size) for size in data.ty.shape)
    copies = tables.indices.shape[1] == 1 and bool(np.all(tables.weights == 1))
    operands = [data, relax.const(tables.indices)]
    if not copies:
        operands.append(relax.const(tables.weights))
    kernel = builder.add_func(_kernel(shape, dtype, axis, tables.indices.shape, copies), "axis_map")
    result = (*shape[:axis], len(tables.indices), *shape[axis + 1 :])
    return builder.emit(
        relax.op.call_tir_with_grad(
            kernel,
            relax.Tuple(operands),
            relax.TensorType(result, dtype),
            te_grad_name=AXIS_MAP,
            te_grad_kwargs={"axis": axis},
        )
    )


def adjoint_of(builder: relax.BlockBuilder, call: relax.Call, grad: relax.Expr) -> list[relax.Expr]:
    """One adjoint per operand of a map; its tables are constants and have none."""
    data, *constants = call.args[1].fields
    axis = int(call.attrs.te_grad_kwargs["axis"])
    indices, *weights = (constant.value.numpy() for constant in constants)
    factors = weights[0] if weights else np.ones(indices.shape, np.float32)
    tables = AxisMap(int(data.ty.shape[axis]), indices, factors)
    return [apply_axis_map(builder, grad, axis, tables.transposed()), *constants]


def _kernel(
    shape: tuple[int, ...], dtype: str, axis: int, table: tuple[int, ...], copies: bool
) -> tirx.PrimFunc:
    """`(x, indices, [weights], y)`; without weights each result is a copy."""
    x = te.placeholder(shape, dtype, name="x")
    indices = te.placeholder(table, "int32", name="indices")
    weights = te.placeholder(table, name="weights")
    results, taps = table

    def term(at: tuple[ir.Expr, ...], tap: ir.Expr | int) -> ir.Expr:
        source = x[(*at[:axis], indices[at[axis], tap], *at[axis + 1 :])]
        return source if copies else weights[at[axis], tap] * source

    def element(*at: ir.Expr) -> ir.Expr:
        total = term(at, 0)
        for tap in range(1, taps):
            total = total + term(at, tap)
        return total

    result_shape = (*shape[:axis], results, *shape[axis + 1 :])
    if taps <= MAX_WRITTEN_OUT:
        y = te.compute(result_shape, element, name="y")
    else:
        tap = te.reduce_axis((0, taps), "tap")
        y = te.compute(result_shape, lambda *at: te.sum(term(at, tap), axis=tap), name="y")
    operands = [x, indices, y] if copies else [x, indices, weights, y]
    return te.create_prim_func(operands).without_attr("global_symbol")
