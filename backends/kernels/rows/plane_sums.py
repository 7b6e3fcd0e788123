"""Sums and means over planes whose size no vector divides, such as a bias's gradient over 111x111.

The rules for other reductions (`autoschedule/reductions.py`) split a loop into equal parts. Here
planes are read in full vectors, several at a time, and the last vector reaches back over elements
that were added before, which count as zero in it. Other shapes are left to those rules.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import Index, lane_total, ramp, splat
from odtc.backends.kernels.pool.planes import plane_kernel

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

COLLAPSE, MEAN = "relax.collapse_sum_to", "relax.mean"
# Vectors that a sum is kept in: what hides how long an addition takes.
_VECTORS = 8
# Elements below which the sums are not worth a second thread.
_FEW = 1 << 14
# The shortest vector that the rules for other reductions take along a plane.
_SHORTEST = 4


def plane_sum_rules(lanes: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        COLLAPSE: partial(_lower_sum, lanes=lanes),
        MEAN: partial(_lower_mean, lanes=lanes),
    }


def plane_sums(shape: Sequence[int], out: Sequence[int], lanes: int) -> tirx.PrimFunc:
    """A kernel `(x, y)`: of each channel the sum over all samples.

    Args:
        shape: of `x`, float32[samples, channels, *plane].
        out: of `y`, float32 with one element for each channel.
        lanes: elements in a vector register.
    """
    samples, channels, *_ = shape

    def body(c: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        at = [index(0) if int(extent) == 1 else c for extent in y.shape]
        T.buffer_store(y, _total(x, samples, lambda n: [n, c], lanes), at)

    return _kernel(channels, shape, out, body)


def plane_means(shape: Sequence[int], out: Sequence[int], lanes: int) -> tirx.PrimFunc:
    """A kernel `(x, y)`: of each plane the mean.

    Args:
        shape: of `x`, float32[samples, channels, *plane].
        out: of `y`, float32[samples, channels], and sizes of one where they are kept.
        lanes: elements in a vector register.
    """
    samples, channels, *plane = shape

    def body(p: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        place = [p // channels, p % channels]
        total = _total(x, 1, lambda _: place, lanes)
        mean = total * tirx.const(1 / math.prod(plane), "float32")
        T.buffer_store(y, mean, [*place, *(index(0) for _ in out[2:])])

    return _kernel(samples * channels, shape, out, body)


def _kernel(
    count: int, shape: Sequence[int], out: Sequence[int], body: Callable[..., None]
) -> tirx.PrimFunc:
    arguments = {"x": (tuple(shape), "float32"), "y": (tuple(out), "float32")}
    return plane_kernel(count, arguments, body, is_small=math.prod(shape) < _FEW)


def _total(
    x: tirx.Buffer, planes: int, place: Callable[[Index], list[ir.Expr]], lanes: int
) -> ir.Expr:
    """Emits the sum over so many planes; `place` has the first indices of each."""
    size = math.prod(int(extent) for extent in x.shape[2:])
    together = _VECTORS * lanes
    first = size // together * together
    between = [index(0) for _ in x.shape[3:]]
    sums = T.sblock_alloc_buffer((together,), "float32")

    def zero() -> ir.Expr:
        return splat(tirx.const(0.0, "float32"), lanes)

    def add(plane: Index, at: Index, vector: int, fresh: int = lanes) -> None:
        """Adds a vector of a plane, of whose elements only the last ones count."""
        there = ramp(vector * lanes, lanes)
        value = x[(*place(plane), *between, ramp(at, lanes))]
        if fresh < lanes:
            counts = ramp(index(0), lanes) >= splat(index(lanes - fresh), lanes)
            value = tirx.Select(counts, value, zero())
        T.buffer_store(sums, sums[there] + value, [there])

    for vector in range(_VECTORS):
        T.buffer_store(sums, zero(), [ramp(vector * lanes, lanes)])
    with T.serial(planes) as plane:
        with T.serial(size // together) as step:
            for vector in range(_VECTORS):
                add(plane, step * together + vector * lanes, vector)
        for vector in range((size - first) // lanes):
            add(plane, first + vector * lanes, vector)
        if size % lanes:
            add(plane, size - lanes, _VECTORS - 1, size % lanes)
    total = sums[ramp(0, lanes)]
    for vector in range(1, _VECTORS):
        total = total + sums[ramp(vector * lanes, lanes)]
    return lane_total(total, lanes)


def _lower_sum(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    shape, out = shape_of(call.args[0]), shape_of(call)
    aligned = [1] * (len(shape) - len(out)) + list(out)
    is_by_channel = shape[1:2] != [1] and aligned == [1, *shape[1:2], *[1] * len(shape[2:])]
    if not is_by_channel or not _is_odd(call, lanes):
        return call.op.get_attr("FLegalize")(builder, call)
    return _called(builder, call, plane_sums(shape, out, lanes), "plane_sums")


def _lower_mean(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    shape = shape_of(call.args[0])
    axes = sorted(int(axis) % len(shape) for axis in call.attrs.axis or range(len(shape)))
    if axes != [*range(2, len(shape))] or not _is_odd(call, lanes):
        return call.op.get_attr("FLegalize")(builder, call)
    return _called(builder, call, plane_means(shape, shape_of(call), lanes), "plane_means")


def _called(
    builder: relax.BlockBuilder, call: relax.Call, kernel: tirx.PrimFunc, name: str
) -> relax.Expr:
    return relax.call_tir(builder.add_func(kernel, name), relax.Tuple([call.args[0]]), call.ty)


def _is_odd(call: relax.Call, lanes: int) -> bool:
    """Whether no vector divides the planes of what is added up, in float32."""
    size = math.prod(shape_of(call.args[0])[2:])
    widths = [n for n in range(_SHORTEST, lanes + 1) if size % n == 0]
    return size >= lanes and not widths and str(call.ty.dtype) == "float32"
