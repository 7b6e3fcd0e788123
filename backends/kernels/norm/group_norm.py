"""Group normalisation: statistics of each sample and group of channels; forward and gradient.

A row is a group of a sample, its segments are the planes of its channels, each with a scale and a
shift. Instance normalisation has a group for each channel.
"""

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of, stored
from odtc.backends.kernels.norm.moments import normal_of
from odtc.backends.kernels.rows.passes import Lanes, Row, row_kernel, rows
from odtc.dialect.rows.norms import group_norm_backward

Shape = tuple[int, int, int, int]


def group_norm_rules(
    lanes: Lanes,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        "relax.nn.group_norm": lambda builder, call: _lower_forward(builder, call, lanes),
        group_norm_backward.name: lambda builder, call: _lower_backward(builder, call, lanes),
    }


def group_norm_kernel(
    shape: Shape, epsilon: float, lanes: Lanes, dtype: str = "float32"
) -> tirx.PrimFunc:
    """A kernel `(x, gamma, beta, y)`; the scale and the shift are `[groups, channels]`.

    Args:
        shape: samples, groups, channels of a group and elements of a channel.
        epsilon: added to the variance.
        lanes: elements in a vector.
        dtype: of all tensors.
    """
    samples, groups, channels, size = shape
    row = Row(channels, size, lanes, dtype)
    with row_kernel("group_norm") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        gamma, beta = (T.arg(n, T.buffer(shape[1:3], dtype)) for n in ("gamma", "beta"))
        y = T.arg("y", T.buffer(shape, dtype))
        with rows(samples * groups, math.prod(shape), lanes) as at:
            sample, group = at // groups, at % groups
            distance, scale = normal_of(row, lambda c, i: x[sample, group, c, i], epsilon)

            def write(c: ir.Expr, i: ir.Expr) -> None:
                value = distance(c, i) * (scale * gamma[group, c]) + beta[group, c]
                T.buffer_store(y, value, [sample, group, c, i])

            row.write(write)
    return made()


def group_norm_gradient(
    shape: Shape, epsilon: float, stored_dtype: str, lanes: Lanes, dtype: str = "float32"
) -> tirx.PrimFunc:
    """A kernel `(dy, x, gamma, dx, dgamma, dbeta)`, as that of a layer normalisation.

    Args:
        shape: samples, groups, channels of a group and elements of a channel.
        epsilon: added to the variance.
        stored_dtype: of `x`.
        lanes: elements in a vector.
        dtype: of all other tensors.
    """
    samples, groups, channels, size = shape
    row, plane = Row(channels, size, lanes, dtype), Row(1, size, lanes, dtype)
    share, zero = tirx.const(1 / (channels * size), dtype), tirx.const(0.0, dtype)
    with row_kernel("group_norm_gradient") as made:
        dy, x = T.arg("dy", T.buffer(shape, dtype)), T.arg("x", T.buffer(shape, stored_dtype))
        gamma = T.arg("gamma", T.buffer(shape[1:3], dtype))
        dx = T.arg("dx", T.buffer(shape, dtype))
        results = [T.arg(name, T.buffer(shape[1:3], dtype)) for name in ("dgamma", "dbeta")]
        parts = T.sblock_alloc_buffer((2, *shape[:3]), dtype)
        with rows(samples * groups, math.prod(shape), lanes) as at:
            sample, group = at // groups, at % groups

            def value(c: ir.Expr, i: ir.Expr) -> ir.Expr:
                return x[sample, group, c, i].astype(dtype)

            distance, scale = normal_of(row, value, epsilon)
            # Of dy times the distance, and of dy; each channel's part under its scale.
            sums = T.sblock_alloc_buffer((2,), dtype)
            for slot in range(2):
                T.buffer_store(sums, zero, [slot])
            with T.serial(channels) as channel:

                def terms(_: ir.Expr, i: ir.Expr) -> list[ir.Expr]:
                    adjoint = dy[sample, group, channel, i]
                    return [adjoint * distance(channel, i), adjoint]

                along, total = plane.fold(terms, count=2)
                for slot, (part, kept) in enumerate(((along, along * scale), (total, total))):
                    T.buffer_store(parts, kept, [slot, sample, group, channel])
                    T.buffer_store(sums, sums[slot] + part * gamma[group, channel], [slot])
            slope, level = T.bind(sums[0] * scale * scale * share), T.bind(sums[1] * share)

            def write(c: ir.Expr, i: ir.Expr) -> None:
                adjoint = dy[sample, group, c, i] * gamma[group, c]
                rest = adjoint - level - distance(c, i) * slope
                T.buffer_store(dx, rest * scale, [sample, group, c, i])

            row.write(write)
        for slot, result in enumerate(results):
            with T.sblock("total"), T.grid(groups, channels) as (group, channel):
                T.buffer_store(result, zero, [group, channel])
                with T.serial(samples) as sample:
                    added = result[group, channel] + parts[slot, sample, group, channel]
                    T.buffer_store(result, added, [group, channel])
    return made()


def _view(shape: list[int], groups: int) -> Shape:
    samples, channels, *sizes = shape
    return samples, groups, channels // groups, math.prod(sizes)


def _lower_forward(builder: relax.BlockBuilder, call: relax.Call, lanes: Lanes) -> relax.Expr:
    data, *affine = call.args
    shape, dtype = shape_of(data), str(data.ty.dtype)
    view = _view(shape, int(call.attrs.num_groups))
    kernel = group_norm_kernel(view, float(call.attrs.epsilon), lanes, dtype)
    name = builder.add_func(kernel, "group_norm")
    operands = [
        builder.emit(relax.op.reshape(each, to))
        for each, to in ((data, view), *((part, view[1:3]) for part in affine))
    ]
    result = relax.call_tir(name, relax.Tuple(operands), relax.TensorType(view, dtype))
    return relax.op.reshape(builder.emit(result), shape)


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call, lanes: Lanes) -> relax.Expr:
    grad, data, gamma = call.args
    data = stored(builder, data)
    shape, dtype = shape_of(grad), str(grad.ty.dtype)
    said, stored_dtype = group_norm_backward.read(call), str(data.ty.dtype)
    view = _view(shape, said.groups)
    kernel = group_norm_gradient(view, said.epsilon, stored_dtype, lanes, dtype)
    name = builder.add_func(kernel, "group_norm_gradient")
    operands = [
        builder.emit(relax.op.reshape(each, to))
        for each, to in ((grad, view), (data, view), (gamma, view[1:3]))
    ]
    results = [relax.TensorType(each, dtype) for each in (view, view[1:3], view[1:3])]
    found = builder.emit(relax.call_tir(name, relax.Tuple(operands), results))
    fields = [builder.emit(relax.TupleGetItem(found, slot)) for slot in range(3)]
    return relax.Tuple(
        [
            builder.emit(relax.op.reshape(field, shape_of(of)))
            for field, of in zip(fields, (grad, gamma, gamma), strict=True)
        ]
    )
