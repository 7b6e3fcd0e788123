"""Reading and writing rows by index, and the gradient of reading.

TVM computes the place of every element anew, has a right gradient only for one dimension, and adds
up on one thread. These kernels look at an index once per row. Sums are taken in the order of the
indices, each by one thread, so they are the same from run to run.

An index below zero counts from the end. One that is out of bounds reads another row, never other
memory; what is read or written by it becomes NaN, so that the loss shows it.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.kernels.common.operand import stored
from odtc.core.ir.kernel_marks import INDEPENDENT, IS_SCHEDULED, OPAQUE, PATTERN, UNTOUCHED

# Elements of a row that one thread sums, and from how many elements on there are several threads.
CHUNK = 64
PARALLEL_ELEMENTS = 1 << 14

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def take_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        "relax.grad.take_backward": _lower_gradient,
        "relax.scatter_nd": _lower_scatter,
        "relax.take": _lower_take,
    }


def finished(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that is scheduled as it is written."""
    return kernel.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})


def of_rows(kernel: tirx.PrimFunc, rows: int, row_bytes: int, count: int) -> tirx.PrimFunc:
    """A finished kernel that touches at most `count` of the rows of a table."""
    return finished(kernel).with_attr(UNTOUCHED, max(rows - count, 0) * row_bytes)


def loop_of(elements: int) -> Callable:
    """The loop over threads of a kernel that touches so many elements."""
    return T.parallel if elements >= PARALLEL_ELEMENTS else T.serial


def _known(index: Any, size: int, value: Any) -> Any:
    """A value that an index leads to; NaN where the index is out of bounds and there is a NaN."""
    dtype = str(value.ty.dtype)
    if "float" not in dtype:
        return value
    inside = tirx.And(index >= -size, index < size)
    return tirx.Select(inside, value, tirx.const(float("nan"), dtype))


def take_kernel(
    outer: int, size: int, inner: int, count: int, dtype: str, index: str
) -> tirx.PrimFunc:
    """A kernel `(data [outer, size, inner], indices [count], result [outer, count, inner])`."""
    loop = loop_of(outer * count * inner)

    @parsed.prim_func(private=True, s_tir=True)
    def take(
        data: T.Buffer((outer, size, inner), dtype),
        indices: T.Buffer((count,), index),
        result: T.Buffer((outer, count, inner), dtype),
    ):
        for row in loop(outer * count):
            for column in T.serial(inner, annotations={INDEPENDENT: inner}):
                with T.sblock("element"):
                    r, i = T.axis.remap("SS", [row, column])
                    T.reads(data[r // count, 0:size, i], indices[r % count])
                    T.writes(result[r // count, r % count, i])
                    result[r // count, r % count, i] = _known(
                        indices[r % count],
                        size,
                        data[r // count, T.floormod(indices[r % count], size), i],
                    )

    return of_rows(take, size, outer * inner * np.dtype(dtype).itemsize, count)


def take_gradient_kernel(
    outer: int, size: int, inner: int, count: int, dtype: str, index: str, chunk_size: int
) -> tirx.PrimFunc:
    """A kernel `(adjoint [outer, count, inner], indices [count], result [outer, size, inner])`.

    A thread has a range of columns to itself, so that no two write the same element, and rows that
    are read often burden all threads alike.

    Args:
        outer: matrices.
        size: rows of each.
        inner: elements of a row.
        count: indices.
        dtype: of the elements.
        index: dtype of the indices.
        chunk_size: columns of a thread.
    """
    width = min(chunk_size, inner)
    chunks = -(-inner // width)
    loop = loop_of(outer * (size + count) * inner)

    @parsed.prim_func(private=True, s_tir=True)
    def take_gradient(
        adjoint: T.Buffer((outer, count, inner), dtype),
        indices: T.Buffer((count,), index),
        result: T.Buffer((outer, size, inner), dtype),
    ):
        for row in loop(outer * size):
            for column in T.serial(inner, annotations={INDEPENDENT: inner}):
                with T.sblock("zero"):
                    r, i = T.axis.remap("SS", [row, column])
                    T.reads()
                    T.writes(result[r // size, r % size, i])
                    result[r // size, r % size, i] = T.cast(0, dtype)
        for chunk in loop(outer * chunks):
            with T.sblock("chunk"):
                c = T.axis.spatial(outer * chunks, chunk)
                T.reads(adjoint[c // chunks, 0:count, 0:inner], indices[0:count])
                T.writes(result[c // chunks, 0:size, 0:inner])
                first = T.sblock_alloc_buffer((1,), "int64", scope="local")
                length = T.sblock_alloc_buffer((1,), "int64", scope="local")
                first[0] = T.int64(width) * (c % chunks)
                length[0] = T.min(T.int64(width), inner - first[0])
                for n, i in T.grid(count, length[0]):
                    result[c // chunks, T.floormod(indices[n], size), first[0] + i] += adjoint[
                        c // chunks, n, first[0] + i
                    ]

    return finished(take_gradient)


# The result of an element and an update to it, by the reduction.
COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda _, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": tirx.min,
    "max": tirx.max,
}


def scatter_kernel(
    rows: int, width: int, count: int, dtype: str, index: str, reduction: str
) -> tirx.PrimFunc:
    """A kernel `(data [rows, width], indices [count, 1], updates [count, width], result)`."""
    part = min(CHUNK, width)
    chunks = -(-width // part)
    loop = loop_of((rows + count) * width)
    combined = COMBINED[reduction]

    @parsed.prim_func(private=True, s_tir=True)
    def scatter(
        data: T.Buffer((rows, width), dtype),
        indices: T.Buffer((count, 1), index),
        updates: T.Buffer((count, width), dtype),
        result: T.Buffer((rows, width), dtype),
    ):
        for chunk in loop(chunks):
            with T.sblock("chunk"):
                c = T.axis.spatial(chunks, chunk)
                T.reads(data[0:rows, 0:width], indices[0:count, 0], updates[0:count, 0:width])
                T.writes(result[0:rows, 0:width])
                first = T.sblock_alloc_buffer((1,), "int64", scope="local")
                length = T.sblock_alloc_buffer((1,), "int64", scope="local")
                target = T.sblock_alloc_buffer((1,), index, scope="local")
                first[0] = T.int64(part) * c
                length[0] = T.min(T.int64(part), width - first[0])
                for s, i in T.grid(rows, length[0]):
                    result[s, first[0] + i] = data[s, first[0] + i]
                for n in range(count):
                    target[0] = T.floormod(indices[n, 0], rows)
                    for i in range(length[0]):
                        result[target[0], first[0] + i] = _known(
                            indices[n, 0],
                            rows,
                            combined(result[target[0], first[0] + i], updates[n, first[0] + i]),
                        )

    return finished(scatter)


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]


def apply_kernel(
    builder: relax.BlockBuilder,
    name: str,
    kernel: tirx.PrimFunc,
    operands: Sequence[tuple[relax.Expr, Sequence[int]]],
    result: Sequence[int],
) -> relax.Expr:
    """Calls a kernel on operands, each brought to its shape."""
    function = builder.add_func(kernel, name)
    shaped = [builder.emit(relax.op.reshape(each, shape)) for each, shape in operands]
    dtype = operands[0][0].ty.dtype
    return builder.emit(
        relax.call_tir(function, relax.Tuple(shaped), relax.TensorType(result, dtype))
    )


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before, along and after an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _lower_take(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    # Of a table that is widened, the rows alone are.
    data, indices = stored(builder, call.args[0]), call.args[1]
    if call.attrs.axis is None or str(call.attrs.mode) != "wrap" or not len(indices.ty.shape):
        return call.op.get_attr("FLegalize")(builder, call)
    outer, size, inner = around(_shape(data), int(call.attrs.axis))
    count = math.prod(_shape(indices))
    kernel = take_kernel(outer, size, inner, count, str(data.ty.dtype), str(indices.ty.dtype))
    operands = [(data, (outer, size, inner)), (indices, (count,))]
    taken = apply_kernel(builder, "take", kernel, operands, (outer, count, inner))
    if data.ty.dtype != call.ty.dtype:
        taken = builder.emit(relax.op.astype(taken, call.ty.dtype))
    return relax.op.reshape(taken, _shape(call))


def _lower_gradient(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    adjoint, data, indices = call.args
    shape = _shape(data)
    outer, size, inner = around(shape, int(call.attrs.axis))
    count = math.prod(_shape(indices))
    kernel = take_gradient_kernel(
        outer, size, inner, count, str(data.ty.dtype), str(indices.ty.dtype), CHUNK
    )
    operands = [(adjoint, (outer, count, inner)), (indices, (count,))]
    gradient = apply_kernel(builder, "take_gradient", kernel, operands, (outer, size, inner))
    return relax.op.reshape(gradient, shape)


def _lower_scatter(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, indices, updates = call.args
    reduction = str(call.attrs.reduction)
    shape, listed = _shape(data), _shape(indices)
    if reduction not in COMBINED or len(shape) != 2 or listed[1:] != [1]:
        return call.op.get_attr("FLegalize")(builder, call)
    rows, width = shape
    kernel = scatter_kernel(
        rows, width, listed[0], str(data.ty.dtype), str(indices.ty.dtype), reduction
    )
    operands = [(data, shape), (indices, listed), (updates, _shape(updates))]
    return apply_kernel(builder, "scatter", kernel, operands, shape)
