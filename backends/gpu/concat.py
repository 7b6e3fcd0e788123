"""Concatenation of more tensors than a launch can have: a launch for some of them at a time."""

import math
from collections.abc import Callable, Sequence

from tvm import ir, relax, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def concat_rules(buffers: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator.

    Args:
        buffers: of a launch, at most.
    """

    def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (joined,) = call.args
        count = len(joined.ty.fields)
        tensors = [builder.emit(relax.TupleGetItem(joined, each)) for each in range(count)]
        # Others fuse with what comes after, which reads tensors of its own.
        if count <= buffers // 2:
            return builder.call_te(topi.concatenate, tensors, int(call.attrs.axis))
        shapes = [shape_of(each) for each in tensors]
        axis = int(call.attrs.axis) % len(shapes[0])
        kernel = concat_kernel(shapes, axis, str(call.ty.dtype), buffers - 1)
        return relax.call_tir(builder.add_func(kernel, "concat"), relax.Tuple(tensors), call.ty)

    return {"relax.concat": lower}


def concat_kernel(
    shapes: Sequence[Sequence[int]], axis: int, dtype: str, most: int
) -> tirx.PrimFunc:
    """A kernel of the tensors and the result; a work-item for each element.

    Args:
        shapes: of the tensors, alike but for the axis.
        axis: of the concatenation.
        dtype: of the elements.
        most: tensors that a launch reads.
    """
    sizes = [shape[axis] for shape in shapes]
    shape = (*shapes[0][:axis], sum(sizes), *shapes[0][axis + 1 :])
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("concat")
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            tensors = [
                T.arg(f"tensor{number}", T.buffer(each, dtype))
                for number, each in enumerate(shapes)
            ]
            result = T.arg("result", T.buffer(shape, dtype))
            for first in range(0, len(tensors), most):
                part, start = slice(first, first + most), sum(sizes[:first])
                extents = (*shape[:axis], sum(sizes[part]), *shape[axis + 1 :])
                with T.parallel(math.prod(extents)) as number:
                    at = _place(number, extents)
                    value = _joined(tensors[part], sizes[part], axis, at)
                    T.buffer_store(result, value, _moved(at, axis, start))
        return builder.get()


def _place(number: ir.Expr, extents: Sequence[int]) -> list[ir.Expr]:
    """The place of an element of a tensor."""
    at: list[ir.Expr] = []
    for extent in reversed(extents):
        at.insert(0, number % extent)
        number = number // extent
    return at


def _moved(at: Sequence[ir.Expr], axis: int, by: int) -> list[ir.Expr]:
    return [*at[:axis], at[axis] + by, *at[axis + 1 :]]


def _joined(
    tensors: Sequence[tirx.Buffer], sizes: Sequence[int], axis: int, at: list[ir.Expr]
) -> ir.Expr:
    """The element of some tensors, one after the other."""
    value, start = tensors[-1][tuple(_moved(at, axis, -sum(sizes[:-1])))], sum(sizes[:-1])
    for tensor, size in zip(tensors[-2::-1], sizes[-2::-1], strict=True):
        start -= size
        here = tensor[tuple(_moved(at, axis, -start))]
        value = tirx.if_then_else(at[axis] < start + size, here, value)
    return value
