"""Batch normalisation in training on a GPU, and its gradient.

A channel that the registers of a team hold is read once, in one launch. Others are cut into parts,
as many as keep the GPU busy, and read twice:

    part ─mean, sum of squared distances from it→ launch ─those of the channel→ part ─written

Each part takes its own mean, of blocks that its items hold, and the sums are merged as Chan, Golub
and LeVeque say, in a fixed order: that loses no more digits than two passes. Parts are written from
the last one on, as the GPU's cache may still have what was read last.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.cut import Cut, cut_of
from odtc.backends.gpu.rows.teams import (
    Held,
    combined,
    each_lane,
    launch,
    total_of,
    where,
    width_of,
)
from odtc.backends.kernels.common.activations import activated
from odtc.backends.kernels.common.vectors import splat
from odtc.backends.kernels.norm.batch_norm import Shape, batch_norm_rules
from odtc.backends.kernels.norm.moments import inverse_root
from odtc.backends.kernels.rows.passes import Team, row_kernel

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def gpu_batch_norm_rules(gpu: Gpu) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    kernels = batch_norm, batch_statistics, batch_norm_gradient
    return batch_norm_rules(
        Team(gpu.group, gpu.groups), *(partial(kernel, gpu=gpu) for kernel in kernels)
    )


_RUNNING = "old_mean", "old_var"
_RESULTS = "new_mean", "new_var", "mean", "scale"


def batch_norm(
    shape: Shape,
    epsilon: float,
    momentum: float,
    _: Team | None = None,
    dtype: str = "float32",
    activation: str = "",
    correction: float = 1.0,
    *,
    gpu: Gpu,
) -> tirx.PrimFunc:
    """A kernel as `batch_norm_kernel`."""
    with row_kernel("batch_norm") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        gamma, beta, *running = _per_channel(shape[1], dtype, "gamma", "beta", *_RUNNING)
        y = T.arg("y", T.buffer(shape, dtype))
        results = _per_channel(shape[1], dtype, *_RESULTS)

        def write(channel: ir.Expr, mean: ir.Expr, scale: ir.Expr) -> "Write":
            factor, shift = T.bind(gamma[channel] * scale), T.bind(beta[channel])

            def normal(value: ir.Expr) -> ir.Expr:
                number = partial(tirx.const, dtype=dtype)
                return activated(activation, (value - mean) * factor + shift, number)

            def block(held: Held, values: Sequence[ir.Expr]) -> None:
                found = [each_lane(normal, value) for value in values]
                held.write(lambda slot, n, i: T.buffer_store(y, found[slot], [n, channel, i]))

            return block

        _channels(x, running, results, (epsilon, momentum, correction), gpu, write)
    return made()


def batch_statistics(
    shape: Shape,
    epsilon: float,
    momentum: float,
    _: Team | None = None,
    dtype: str = "float32",
    correction: float = 1.0,
    *,
    gpu: Gpu,
) -> tirx.PrimFunc:
    """A kernel as `batch_statistics_kernel`."""
    with row_kernel("batch_statistics") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        running = _per_channel(shape[1], dtype, *_RUNNING)
        results = _per_channel(shape[1], dtype, *_RESULTS)
        _channels(x, running, results, (epsilon, momentum, correction), gpu, None)
    return made()


# Emits the stores of what an item holds, and what these values are.
Write = Callable[[Held, Sequence[ir.Expr]], None]


def _channels(
    x: tirx.Buffer,
    running: Sequence[tirx.Buffer],
    results: Sequence[tirx.Buffer],
    rates: tuple[float, float, float],
    gpu: Gpu,
    write: Callable[[ir.Expr, ir.Expr, ir.Expr], Write] | None,
) -> None:
    """Emits the statistics of each channel.

    Args:
        x: the data.
        running: mean and variance.
        results: their new values, and the batch's mean and scale.
        rates: epsilon, momentum, and the correction of the variance.
        gpu: the machine.
        write: gives what is written for a channel, of its number, mean and scale.
    """
    (samples, channels, size), dtype = (int(each) for each in x.shape), str(x.dtype)
    cut = cut_of((samples, channels, size), width_of(size, dtype), 1, gpu)
    (epsilon, momentum, correction), (*changed, mean_out, scale_out) = rates, results
    count = tirx.const(cut.elements, dtype)

    def read(channel: ir.Expr, held: Held) -> list[ir.Expr]:
        return held.read(lambda n, i: x[n, channel, i])

    def store(channel: ir.Expr, is_first: ir.Expr, mean: ir.Expr, squares: ir.Expr) -> ir.Expr:
        variance = T.bind(squares / count)
        scale = inverse_root(variance, epsilon, dtype)
        moving = zip(
            running, changed, (mean, variance), (momentum, momentum * correction), strict=True
        )
        with T.If(is_first), T.Then():
            for old, new, value, share in moving:
                kept = old[channel] * tirx.const(1 - momentum, dtype)
                T.buffer_store(new, kept + value * tirx.const(share, dtype), [channel])
            T.buffer_store(mean_out, mean, [channel])
            T.buffer_store(scale_out, scale, [channel])
        return scale

    if cut.is_held:
        with launch(channels, cut.group) as (channel, item):
            held = cut.block(item, 0, 0)
            values = read(channel, held)
            (total,) = combined([total_of(values)], item, cut.group, cut.group)
            mean = T.bind(total / count)
            far = _far(held, values, mean)
            (squares,) = combined([_squares(far)], item, cut.group, cut.group)
            scale = store(channel, item < 1, mean, squares)
            if write:
                write(channel, mean, scale)(held, values)
        return
    partial_sums = T.sblock_alloc_buffer((2, channels, cut.parts), dtype)
    with launch(channels * cut.parts, cut.group) as (group, item):
        channel, part = group // cut.parts, group % cut.parts
        moments = _part_moments(cut, item, part, partial(read, channel), dtype)
        with T.If(item < 1), T.Then():
            for number, value in enumerate(moments):
                T.buffer_store(partial_sums, value, [number, channel, part])
    items = 1 << (cut.parts - 1).bit_length()
    if write is None:
        with launch(channels, items) as (channel, item):
            store(channel, item < 1, *_merged(cut, partial_sums, channel, item, items))
        return
    with launch(channels * cut.parts, cut.group) as (group, item):
        channel, part = _from_the_end(cut, group)
        mean, squares = _merged(cut, partial_sums, channel, item, cut.group)
        scale = store(channel, tirx.all(part < 1, item < 1), mean, squares)
        block = write(channel, mean, scale)
        with T.serial(cut.turns) as turn:
            held = cut.block(item, part, turn)
            block(held, read(channel, held))


def _part_moments(
    cut: Cut,
    item: ir.Expr,
    part: ir.Expr,
    read: Callable[[Held], list[ir.Expr]],
    dtype: str,
) -> tuple[ir.Expr, ir.Expr]:
    """Emits the mean of a part, and the sum of squared distances from it."""
    zero, one = tirx.const(0.0, dtype), tirx.const(1.0, dtype)
    # Of the item: how many elements, their mean, and the squared distances from it.
    own = T.sblock_alloc_buffer((3,), dtype, scope="local")
    for number in range(3):
        T.buffer_store(own, zero, [number])
    with T.serial(cut.turns) as turn:
        held = cut.block(item, part, turn)
        values = read(held)
        count = T.bind(_elements(cut, held, dtype))
        mean = T.bind(total_of(values) / tirx.max(count, one))
        squares = _squares(_far(held, values, mean))
        before, apart = T.bind(own[0]), T.bind(mean - own[1])
        share = T.bind(count / tirx.max(before + count, one))
        T.buffer_store(own, own[2] + (squares + apart * apart * before * share), [2])
        T.buffer_store(own, own[1] + apart * share, [1])
        T.buffer_store(own, before + count, [0])
    count, mean, squares = (T.bind(own[number]) for number in range(3))
    (total,) = combined([T.bind(count * mean)], item, cut.group, cut.group)
    middle = T.bind(total / _elements_of_part(cut, part, dtype))
    apart = T.bind(mean - middle)
    (all_squares,) = combined([T.bind(squares + count * apart * apart)], item, cut.group, cut.group)
    return middle, all_squares


def _merged(
    cut: Cut, partial_sums: tirx.Buffer, channel: ir.Expr, item: ir.Expr, group: int
) -> tuple[ir.Expr, ir.Expr]:
    """Emits the mean of a channel, and the sum of squared distances from it, of its parts'."""
    items, dtype = 1 << (cut.parts - 1).bit_length(), str(partial_sums.dtype)
    number = item % items if items < group else item
    part = number if items == cut.parts else tirx.min(number, cut.parts - 1)
    mean, squares = (T.bind(partial_sums[slot, channel, part]) for slot in range(2))
    count = _elements_of_part(cut, part, dtype)
    if items > cut.parts:
        is_there, zero = number < cut.parts, tirx.const(0.0, dtype)
        count = tirx.Select(is_there, count, zero)
        squares = T.bind(tirx.Select(is_there, squares, zero))
    count = T.bind(count)
    (total,) = combined([T.bind(count * mean)], item, group, items)
    middle = T.bind(total / tirx.const(cut.elements, dtype))
    apart = T.bind(mean - middle)
    (all_squares,) = combined([T.bind(squares + count * apart * apart)], item, group, items)
    return middle, all_squares


def _elements(cut: Cut, held: Held, dtype: str) -> ir.Expr:
    """How many elements an item has in a block."""
    left = cut.vectors - held.first - held.item
    vectors = (left + (held.items - 1)) // held.items
    vectors = tirx.max(tirx.min(vectors, held.count), 0)
    return (vectors * cut.width).astype(dtype)


def _elements_of_part(cut: Cut, part: ir.Expr, dtype: str) -> ir.Expr:
    # TVM fails at a product with a number that was an integer whose bounds it knows.
    last = cut.vectors - (cut.parts - 1) * cut.own
    of_most, of_last = (tirx.const(float(n * cut.width), dtype) for n in (cut.own, last))
    return tirx.Select(part < cut.parts - 1, of_most, of_last)


def _from_the_end(cut: Cut, group: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Channel and part of a group, of which the first has the last part."""
    # TVM divides the difference wrongly: each number by itself.
    return cut.channels - 1 - group // cut.parts, cut.parts - 1 - group % cut.parts


def _far(held: Held, values: Sequence[ir.Expr], mean: ir.Expr) -> list[ir.Expr]:
    middle = splat(mean, held.width)
    return held.masked([T.bind(each - middle) for each in values])


def _squares(far: Sequence[ir.Expr]) -> ir.Expr:
    return total_of([each * each for each in far])


def batch_norm_gradient(
    shape: Shape,
    stored_dtype: str,
    _: Team | None = None,
    dtype: str = "float32",
    held: tuple[int, int] | None = None,
    *,
    gpu: Gpu,
) -> tirx.PrimFunc:
    """A kernel as `batch_norm_gradient`."""
    samples, channels, size = shape
    width, begin = held or (channels, 0)
    cut = cut_of(shape, width_of(size, dtype, stored_dtype), 2, gpu)
    share = tirx.const(1 / cut.elements, dtype)
    with row_kernel("batch_norm_gradient") as made:
        dy = T.arg("dy", T.buffer(shape, dtype))
        x = T.arg("x", T.buffer((samples, width, size), stored_dtype))
        gamma, mean_in, scale_in = _per_channel(channels, dtype, "gamma", "mean", "scale")
        dx = T.arg("dx", T.buffer(shape, dtype))
        dgamma, dbeta = _per_channel(channels, dtype, "dgamma", "dbeta")

        def read(channel: ir.Expr, block: Held) -> tuple[list[ir.Expr], list[ir.Expr]]:
            """The gradient, and the distances from the mean."""
            mean = splat(T.bind(mean_in[channel]), cut.width)

            def value(n: ir.Expr, i: ir.Expr) -> ir.Expr:
                found = x[n, channel + begin, i]
                return found if cut.width > 1 else found.astype(dtype)

            adjoints = block.read(lambda n, i: dy[n, channel, i])
            values = block.read(value)
            return adjoints, [T.bind(each - mean) for each in values]

        def write(
            channel: ir.Expr, is_first: ir.Expr, total: ir.Expr, along: ir.Expr
        ) -> Callable[[Held, Sequence[ir.Expr], Sequence[ir.Expr]], None]:
            scale = T.bind(scale_in[channel])
            with T.If(is_first), T.Then():
                T.buffer_store(dbeta, total, [channel])
                T.buffer_store(dgamma, along * scale, [channel])
            numbers = gamma[channel] * scale, total * share, along * scale * scale * share
            factor, level, slope = (splat(T.bind(each), cut.width) for each in numbers)

            def block(held: Held, adjoints: Sequence[ir.Expr], far: Sequence[ir.Expr]) -> None:
                found = [
                    T.bind(factor * (each - level - distance * slope))
                    for each, distance in zip(adjoints, far, strict=True)
                ]
                held.write(lambda slot, n, i: T.buffer_store(dx, found[slot], [n, channel, i]))

            return block

        if cut.is_held:
            with launch(channels, cut.group) as (channel, item):
                block = cut.block(item, 0, 0)
                adjoints, far = read(channel, block)
                values = [total_of(adjoints), _product(adjoints, far)]
                sums = combined(values, item, cut.group, cut.group)
                write(channel, item < 1, *sums)(block, adjoints, far)
        else:
            _gradient_in_parts(cut, dtype, read, write)
    return made()


def _gradient_in_parts(
    cut: Cut,
    dtype: str,
    read: Callable[[ir.Expr, Held], tuple[list[ir.Expr], list[ir.Expr]]],
    write: Callable[..., Callable[..., None]],
) -> None:
    """Emits the sums of each part, and then what is written.

    Args:
        cut: of the channels.
        dtype: of the sums.
        read: gives what an item has of a channel: the gradient, and distances from the mean.
        write: of a channel, whether it is its first item, and its sums, what stores such blocks.
    """
    partial_sums = T.sblock_alloc_buffer((2, cut.channels, cut.parts), dtype)
    with launch(cut.channels * cut.parts, cut.group) as (group, item):
        channel, part = group // cut.parts, group % cut.parts
        own = T.sblock_alloc_buffer((2,), dtype, scope="local")
        for number in range(2):
            T.buffer_store(own, tirx.const(0.0, dtype), [number])
        with T.serial(cut.turns) as turn:
            adjoints, far = read(channel, cut.block(item, part, turn))
            for number, value in enumerate((total_of(adjoints), _product(adjoints, far))):
                T.buffer_store(own, own[number] + value, [number])
        values = [T.bind(own[number]) for number in range(2)]
        sums = combined(values, item, cut.group, cut.group)
        with T.If(item < 1), T.Then():
            for number, value in enumerate(sums):
                T.buffer_store(partial_sums, value, [number, channel, part])
    with launch(cut.channels * cut.parts, cut.group) as (group, item):
        channel, part = _from_the_end(cut, group)
        items = 1 << (cut.parts - 1).bit_length()
        number = item % items if items < cut.group else item
        at = number if items == cut.parts else tirx.min(number, cut.parts - 1)
        values = [T.bind(partial_sums[slot, channel, at]) for slot in range(2)]
        if items > cut.parts:
            values = [where(number < cut.parts, each) for each in values]
        sums = combined(values, item, cut.group, items)
        block = write(channel, tirx.all(part < 1, item < 1), *sums)
        with T.serial(cut.turns) as turn:
            held = cut.block(item, part, turn)
            block(held, *read(channel, held))


def _product(left: Sequence[ir.Expr], right: Sequence[ir.Expr]) -> ir.Expr:
    return total_of([a * b for a, b in zip(left, right, strict=True)])


def _per_channel(channels: int, dtype: str, *names: str) -> list[tirx.Buffer]:
    return [T.arg(name, T.buffer((channels,), dtype)) for name in names]
