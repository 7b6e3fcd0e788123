"""Batch normalisation in training: a kernel for the forward pass, and one for the backward.

Each takes a channel at a time, whose elements stay in cache between its passes: one for the mean,
one for the variance and one that writes, or one for both sums and one that writes. GPUs have
kernels of their own (`backends/gpu/rows/batch_norm.py`).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last.batch_norm import batch_norm_last, batch_norm_last_gradient
from odtc.backends.kernels.common.activations import activated
from odtc.backends.kernels.common.operand import call_kernel, channels_of, shape_of, stored
from odtc.backends.kernels.norm.moments import scale_of
from odtc.backends.kernels.norm.stages import Stage, Sums, staged
from odtc.backends.kernels.rows.passes import Lanes, Row, Terms, row_kernel
from odtc.core.ir.layouts import LAST
from odtc.dialect.images import batch_norm as dialect

Shape = tuple[int, int, int]


def batch_norm_kernel(
    shape: Shape,
    epsilon: float,
    momentum: float,
    lanes: Lanes,
    dtype: str = "float32",
    activation: str = "",
    correction: float = 1.0,
) -> tirx.PrimFunc:
    """A kernel `(x, gamma, beta, running_mean, running_var, y, new_mean, new_var, mean, scale)`.

    `scale` is `1 / sqrt(var + epsilon)`; the running statistics move by `momentum` towards those of
    the batch.

    Args:
        shape: samples, channels and elements of a plane of `x` and `y`; the rest is per channel.
        epsilon: added to the variance.
        momentum: the share of the new statistics.
        lanes: elements in a vector.
        dtype: of all tensors.
        activation: name of an operator of `ACTIVATIONS` that `y` has after it, or nothing.
        correction: of the batch's variance, for the running one.
    """
    with row_kernel("batch_norm") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        gamma, beta, *running = _per_channel(shape[1], dtype, *_SCALING, *_RUNNING)
        y = T.arg("y", T.buffer(shape, dtype))
        results = _per_channel(shape[1], dtype, *_STATISTICS)

        def last(channel: ir.Expr, row: Row, mean: ir.Expr, scale: ir.Expr) -> None:
            factor, shift = T.bind(gamma[channel] * scale), T.bind(beta[channel])

            def write(n: ir.Expr, i: ir.Expr) -> None:
                value = (x[n, channel, i] - mean) * factor + shift
                number = partial(tirx.const, dtype=value.ty.dtype)
                T.buffer_store(y, activated(activation, value, number), [n, channel, i])

            row.write(write)

        _statistics(x, running, results, (epsilon, momentum, correction), lanes, last)
    return made()


def batch_statistics_kernel(
    shape: Shape,
    epsilon: float,
    momentum: float,
    lanes: Lanes,
    dtype: str = "float32",
    correction: float = 1.0,
) -> tirx.PrimFunc:
    """A kernel `(x, running_mean, running_var, new_mean, new_var, mean, scale)`.

    It is `batch_norm_kernel` without `y`, which its readers compute.
    """
    with row_kernel("batch_statistics") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        running = _per_channel(shape[1], dtype, *_RUNNING)
        results = _per_channel(shape[1], dtype, *_STATISTICS)
        rates = epsilon, momentum, correction
        _statistics(x, running, results, rates, lanes, lambda *_: None)
    return made()


_SCALING, _RUNNING = ("gamma", "beta"), ("old_mean", "old_var")
_STATISTICS = ("new_mean", "new_var", "mean", "scale")


def _statistics(
    x: tirx.Buffer,
    running: Sequence[tirx.Buffer],
    results: Sequence[tirx.Buffer],
    rates: tuple[float, float, float],
    lanes: Lanes,
    last: Callable[[ir.Expr, Row, ir.Expr, ir.Expr], None],
) -> None:
    """Emits the statistics of each channel.

    Args:
        x: the data.
        running: mean and variance.
        results: their new values, and the batch's mean and scale.
        rates: epsilon, momentum, and the correction of the variance.
        lanes: elements in a vector.
        last: emits what follows for a channel, of its number, its row, mean and scale.
    """
    (samples, channels, size), dtype = (int(each) for each in x.shape), str(x.dtype)
    (epsilon, momentum, correction), (*changed, mean_out, scale_out) = rates, results
    shares = momentum, momentum * correction
    count = tirx.const(float(samples * size), dtype)

    def values(channel: ir.Expr, _: Sums) -> Terms:
        return lambda n, i: [x[n, channel, i]]

    def squares(channel: ir.Expr, sums: Sums) -> Terms:
        mean = T.bind(sums[0] / count)

        def square(n: ir.Expr, i: ir.Expr) -> list[ir.Expr]:
            distance = x[n, channel, i] - mean
            return [distance * distance]

        return square

    def store(channel: ir.Expr, row: Row, sums: Sums) -> None:
        mean, variance = (T.bind(each / count) for each in sums)
        scale = scale_of(row, variance, epsilon)
        last(channel, row, mean, scale)
        moving = zip(running, changed, (mean, variance), shares, strict=True)
        for old, new, value, share in moving:
            kept = old[channel] * tirx.const(1 - momentum, dtype)
            T.buffer_store(new, kept + value * tirx.const(share, dtype), [channel])
        T.buffer_store(mean_out, mean, [channel])
        T.buffer_store(scale_out, scale, [channel])

    # The mean of squares less the square of the mean would lose digits: see `moments.py`.
    row = Row(samples, size, lanes, dtype)
    staged(channels, row, [Stage(values), Stage(squares)], store)


def batch_norm_gradient(
    shape: Shape,
    stored_dtype: str,
    lanes: Lanes,
    dtype: str = "float32",
    held: tuple[int, int] | None = None,
) -> tirx.PrimFunc:
    """A kernel `(dy, x, gamma, mean, scale, dx, dgamma, dbeta)`.

    With `x' = (x - mean) * scale` over the m elements of a channel: `dx = gamma * scale * (dy -
    sum(dy) / m - x' * sum(dy * x') / m)` (Ioffe and Szegedy, 2015, section 3).

    Args:
        shape: samples, channels and elements of a plane.
        stored_dtype: of `x`.
        lanes: elements in a vector.
        dtype: of all other tensors.
        held: how many channels the tensor has that `x` is a part of, and the first of `x`.
    """
    samples, channels, size = shape
    width, first = held or (channels, 0)
    share = tirx.const(1 / (samples * size), dtype)
    with row_kernel("batch_norm_gradient") as made:
        dy = T.arg("dy", T.buffer(shape, dtype))
        x = T.arg("x", T.buffer((samples, width, size), stored_dtype))
        gamma, mean_in, scale_in = _per_channel(channels, dtype, "gamma", "mean", "scale")
        dx = T.arg("dx", T.buffer(shape, dtype))
        dgamma, dbeta = _per_channel(channels, dtype, "dgamma", "dbeta")

        def distance(channel: ir.Expr) -> Callable[[ir.Expr, ir.Expr], ir.Expr]:
            mean = T.bind(mean_in[channel])
            return lambda n, i: x[n, channel + first, i].astype(dtype) - mean

        def terms(channel: ir.Expr, _: Sums) -> Terms:
            far = distance(channel)
            return lambda n, i: [dy[n, channel, i], dy[n, channel, i] * far(n, i)]

        def last(channel: ir.Expr, row: Row, sums: Sums) -> None:
            (total, along), far, scale = sums, distance(channel), T.bind(scale_in[channel])
            T.buffer_store(dbeta, total, [channel])
            T.buffer_store(dgamma, along * scale, [channel])
            factor, level = T.bind(gamma[channel] * scale), T.bind(total * share)
            slope = T.bind(along * scale * scale * share)

            def write(n: ir.Expr, i: ir.Expr) -> None:
                rest = dy[n, channel, i] - level - far(n, i) * slope
                T.buffer_store(dx, factor * rest, [n, channel, i])

            row.write(write)

        staged(channels, Row(samples, size, lanes, dtype), [Stage(terms, count=2)], last)
    return made()


def _per_channel(channels: int, dtype: str, *names: str) -> list[tirx.Buffer]:
    return [T.arg(name, T.buffer((channels,), dtype)) for name in names]


def _planes(shape: list[int]) -> Shape:
    return shape[0], shape[1], math.prod(shape[2:])


def batch_norm_rules(
    lanes: Lanes,
    forward: Callable[..., tirx.PrimFunc] = batch_norm_kernel,
    statistics: Callable[..., tirx.PrimFunc] = batch_statistics_kernel,
    gradient: Callable[..., tirx.PrimFunc] = batch_norm_gradient,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator.

    Args:
        lanes: elements of a vector, or a team.
        forward: makes kernels as `batch_norm_kernel`.
        statistics: makes kernels as `batch_statistics_kernel`.
        gradient: makes kernels as `batch_norm_gradient`.
    """
    return {
        dialect.batch_norm.name: partial(_lower_forward, lanes=lanes, made=forward),
        dialect.batch_statistics.name: partial(_lower_statistics, lanes=lanes, made=statistics),
        dialect.batch_norm_backward.name: partial(_lower_backward, lanes=lanes, made=gradient),
    }


def _lower_forward(
    builder: relax.BlockBuilder,
    call: relax.Call,
    lanes: Lanes,
    made: Callable[..., tirx.PrimFunc],
) -> relax.Expr:
    data, *others = call.args
    planes, dtype = _planes(shape_of(data)), str(data.ty.dtype)
    said = dialect.batch_norm.read(call)
    epsilon, momentum, activation = said.epsilon, said.momentum, said.activation
    correction = said.correction
    if said.layout == LAST:
        flat = _matrix(shape_of(data))
        plain = _plain(lanes)
        kernel = batch_norm_last(flat, epsilon, momentum, plain, activation, correction)
    else:
        flat = planes
        kernel = made(planes, epsilon, momentum, lanes, dtype, activation, correction)
    whole, part = (relax.TensorType(shape, dtype) for shape in (flat, shape_of(others[0])))
    return _called(builder, kernel, [data], others, [whole, *[part] * 4])


def _lower_statistics(
    builder: relax.BlockBuilder,
    call: relax.Call,
    lanes: Lanes,
    made: Callable[..., tirx.PrimFunc],
) -> relax.Expr:
    data, *running = call.args
    planes, dtype = _planes(shape_of(data)), str(data.ty.dtype)
    said = dialect.batch_statistics.read(call)
    rates = said.epsilon, said.momentum
    kernel = made(planes, *rates, lanes, dtype, said.correction)
    flat = builder.emit(relax.op.reshape(data, planes))
    return call_kernel(builder, kernel, "batch_statistics", call, [flat, *running])


def _lower_backward(
    builder: relax.BlockBuilder,
    call: relax.Call,
    lanes: Lanes,
    made: Callable[..., tirx.PrimFunc],
) -> relax.Expr:
    grad, data, *others = call.args
    if dialect.batch_norm_backward.read(call).layout == LAST:
        return _lower_last_backward(builder, call, _plain(lanes))
    data, first = channels_of(builder, data)
    planes, dtype = _planes(shape_of(grad)), str(grad.ty.dtype)
    held = shape_of(data)[1], first
    kernel = made(planes, str(data.ty.dtype), lanes, dtype, held)
    whole, part = (relax.TensorType(shape, dtype) for shape in (planes, planes[1:2]))
    return _called(builder, kernel, [grad, data], others, [whole, part, part])


def _lower_last_backward(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    grad, data, *others = call.args
    data, matrix = stored(builder, data), _matrix(shape_of(grad))
    kernel = batch_norm_last_gradient(matrix, str(data.ty.dtype), lanes)
    whole, part = (relax.TensorType(shape, "float32") for shape in (matrix, shape_of(others[0])))
    return _called(builder, kernel, [grad, data], others, [whole, part, part])


def _plain(lanes: Lanes) -> int:
    """The lanes of a CPU: no other target has channels last."""
    assert isinstance(lanes, int)
    return lanes


def _matrix(shape: list[int]) -> tuple[int, int]:
    """Pixels of all samples, and channels, of images that have these last."""
    return math.prod(shape[:-1]), shape[-1]


def _called(
    builder: relax.BlockBuilder,
    kernel: tirx.PrimFunc,
    images: list[relax.Expr],
    others: list[relax.Expr],
    results: list[relax.Type],
) -> relax.Expr:
    """The kernel on planes; the first of its results in the shape of the images."""
    name = builder.add_func(kernel, "batch_norm")
    shape = shape_of(images[0])
    # As the kernel has them.
    views = [[int(size) for size in each.shape] for each in kernel.params[: len(images)]]
    flat = [
        builder.emit(relax.op.reshape(image, view))
        for image, view in zip(images, views, strict=True)
    ]
    found = builder.emit(relax.call_tir(name, relax.Tuple([*flat, *others]), results))
    first, *rest = (builder.emit(relax.TupleGetItem(found, i)) for i in range(len(results)))
    return relax.Tuple([builder.emit(relax.op.reshape(first, shape)), *rest])
