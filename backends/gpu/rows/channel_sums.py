"""Sums over all of a tensor but its channels on a GPU, as gradients of convolutions' biases are.

A channel whose elements a group reads at once is a launch; others are cut into parts, whose sums a
second launch adds up.
"""

import math
from collections.abc import Sequence

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.cut import cut_of
from odtc.backends.gpu.rows.teams import Held, combined, launch, total_of, where, width_of
from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.norm.batch_norm import Shape
from odtc.backends.kernels.rows.passes import row_kernel


def channel_sums(builder: relax.BlockBuilder, call: relax.Call, gpu: Gpu) -> relax.Expr | None:
    """Such a sum, float32, as a kernel of its own; None of any other.

    Args:
        builder: of the function.
        call: of `relax.collapse_sum_to`.
        gpu: the machine.
    """
    shape, out = shape_of(call.args[0]), shape_of(call)
    if not _is_by_channel(shape, out):
        return None
    planes = shape[0], shape[1], math.prod(shape[2:])
    name = builder.add_func(channel_sum_kernel(planes, gpu), "collapse_sum")
    flat = relax.Tuple([builder.emit(relax.op.reshape(call.args[0], planes))])
    found = relax.call_tir(name, flat, relax.TensorType(planes[1:2], "float32"))
    return relax.op.reshape(builder.emit(found), out)


def channel_sum_kernel(shape: Shape, gpu: Gpu) -> tirx.PrimFunc:
    """A kernel `(x [samples, channels, size], y [channels])`, float32.

    Args:
        shape: samples, channels and elements of a plane.
        gpu: the machine.
    """
    _, channels, size = shape
    cut = cut_of(shape, width_of(size, "float32"), 1, gpu)
    with row_kernel("collapse_sum") as made:
        x, y = T.arg("x", T.buffer(shape)), T.arg("y", T.buffer((channels,)))
        sums = y if cut.is_held else T.sblock_alloc_buffer((channels, cut.parts), "float32")
        with launch(channels * cut.parts, cut.group) as (group, item):
            channel, part = group // cut.parts, group % cut.parts
            own = T.sblock_alloc_buffer((1,), "float32", scope="local")
            T.buffer_store(own, tirx.const(0.0, "float32"), [0])
            with T.serial(cut.turns) as turn:
                held: Held = cut.block(item, part, turn)
                values = held.read(lambda n, i: x[n, channel, i])
                T.buffer_store(own, own[0] + total_of(values), [0])
            (total,) = combined([T.bind(own[0])], item, cut.group, cut.group)
            with T.If(item < 1), T.Then():
                T.buffer_store(sums, total, [channel] if cut.is_held else [channel, part])
        if not cut.is_held:
            items = 1 << (cut.parts - 1).bit_length()
            with launch(channels, items) as (channel, item):
                value = T.bind(sums[channel, tirx.min(item, cut.parts - 1)])
                own_part = where(item < cut.parts, value)
                (total,) = combined([own_part], item, items, items)
                with T.If(item < 1), T.Then():
                    T.buffer_store(y, total, [channel])
    return made()


def _is_by_channel(shape: Sequence[int], out: Sequence[int]) -> bool:
    aligned = [1] * (len(shape) - len(out)) + list(out)
    return len(shape) > 2 and aligned == [1, shape[1], *[1] * (len(shape) - 2)]
