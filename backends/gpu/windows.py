"""Indexing of a convolution's image on a GPU: channels and taps, and positions of windows."""

import math
from collections.abc import Callable, Sequence

import tvm
from tvm import ir, tirx

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.product_slices import ProductTerm
from odtc.backends.kernels.common.places import flatten, index, load, unflatten
from odtc.backends.kernels.convolution.grid import ConvolutionAxis

# A row of taps may be filled up to whole slices if it is so many eighths of them, at least.
_LEAST_FILLED = 7, 8
# From the period of a number to its quotient and remainder.
Split = Callable[[int], tuple[ir.Expr, ir.Expr]]


def by_tap_or_channel(
    channels: int, taps: Sequence[int], run: int, gpu: Gpu
) -> Callable[[Split], tuple[ir.Expr, list[ir.Expr]]]:
    """Returns a map from a number to its channel and tap, channels first or taps first.

    In the first order a run of numbers that items take side by side has one tap: whether a window
    is inside of the image there, and where, is found once for the run and not for each element.

    Args:
        channels: how many there are.
        taps: by axis.
        run: numbers in a run.
        gpu: the machine.
    """
    taps_first = _taps_first(channels, taps, run, gpu)

    def by_channel(split: Split) -> tuple[ir.Expr, list[ir.Expr]]:
        c, tap = split(math.prod(taps))
        return c, unflatten(tap, taps)

    def by_tap(split: Split) -> tuple[ir.Expr, list[ir.Expr]]:
        tap, c = split(channels)
        return c, unflatten(tap, taps)

    return by_tap if taps_first else by_channel


def of_terms(
    channels: int, taps: Sequence[int], run: int, gpu: Gpu
) -> Callable[[ProductTerm], tuple[ir.Expr, list[ir.Expr]]]:
    """Returns a map from a term to its channel and tap, as `by_tap_or_channel` does.

    Where channels fill slices, all taps of a slice's channels are next to each other: what they
    read of weights and of the image overlaps, and stays in a GPU's nearest cache meanwhile. Weights
    of one tap lie apart, so that of each piece of memory that is fetched only a part is used.
    """
    usual = by_tap_or_channel(channels, taps, run, gpu)
    taps_first = _taps_first(channels, taps, run, gpu)

    def of_term(term: ProductTerm) -> tuple[ir.Expr, list[ir.Expr]]:
        if not taps_first or channels % term.terms:
            return usual(term.split)
        count = math.prod(taps)
        first = term.slice // count * term.terms
        return first + term.k, unflatten(term.slice % count, taps)

    return of_term


def _taps_first(channels: int, taps: Sequence[int], run: int, gpu: Gpu) -> bool:
    usual = math.prod(taps) > 1 and channels % run == 0
    (taps_first,) = gpu.decide("order", [(1,), (0,)], (int(usual),))
    return bool(taps_first)


def whole_slices(channels: int, taps: Sequence[int], run: int) -> int:
    """Terms of a row of taps as whole slices of `run` terms, or 0 where these do not pay.

    Of an image's colours no slice has one tap, but where rows of the window nearly fill slices, as
    those of 7 taps do, a slice may have one row: a little more is multiplied, by zeros.
    """
    length = -(-taps[-1] // run) * run
    fills = length * _LEAST_FILLED[0] <= taps[-1] * _LEAST_FILLED[1]
    return length if channels % run and math.prod(taps) > taps[-1] and fills else 0


def by_row(
    channels: int, taps: Sequence[int], length: int
) -> Callable[[ProductTerm], tuple[ir.Expr, list[ir.Expr]]]:
    """Returns a map from a term to its channel and tap, where rows of taps have `length` terms.

    The last index of a tap may be beyond its row.
    """

    def of(term: ProductTerm) -> tuple[ir.Expr, list[ir.Expr]]:
        line, last = term.split(length)
        c, *rest = unflatten(line, [channels, *taps[:-1]])
        return c, [*rest, last]

    return of


def load_of_row(weights: tirx.Buffer, outer: Sequence[ir.Expr], tap: Sequence[ir.Expr]) -> ir.Expr:
    """The weight of a tap, which is zero beyond its row."""
    *rest, last = tap
    size = int(weights.shape[-1])
    element = load_at(weights, outer, [*rest, tirx.min(last, index(size - 1))])
    return or_zero(last < size, element)


def in_window(
    image: tirx.Buffer,
    outer: Sequence[ir.Expr],
    axes: Sequence[ConvolutionAxis],
    o: Sequence[ir.Expr],
    t: Sequence[ir.Expr],
    conditions: Sequence[ir.Expr] = (),
) -> ir.Expr:
    """The element of an image that tap `t` of output `o` reads, or zero; see `inside`."""
    at = [
        place * axis.stride + tap * axis.dilation - axis.pad
        for axis, place, tap in zip(axes, o, t, strict=True)
    ]
    return inside(image, outer, at, axes, conditions)


def inside(
    tensor: tirx.Buffer,
    outer: Sequence[ir.Expr],
    at: Sequence[ir.Expr],
    axes: Sequence[ConvolutionAxis],
    conditions: Sequence[ir.Expr],
    *,
    out: bool = False,
) -> ir.Expr:
    """An element, or zero where a place is outside or a condition does not hold."""
    sizes = [axis.out if out else axis.size for axis in axes]
    tests = list(conditions)
    for axis, place, size in zip(axes, at, sizes, strict=True):
        if not axis.is_point:
            tests += [place >= 0, place < size]
    if not tests:
        return load_at(tensor, outer, at)
    is_there = tirx.all(*tests)
    plane = flatten(at, sizes)
    return or_zero(is_there, load_at(tensor, outer, [tirx.Select(is_there, plane, index(0))]))


def or_zero(condition: ir.Expr, element: ir.Expr) -> ir.Expr:
    """An element whose place is inside in any case, or zero where a condition does not hold.

    Items side by side differ in the condition, and loads behind branches wait for each other: with
    NVIDIA's driver for Vulkan a convolution took up to twice as long. Of a choice with a load TVM
    makes a branch, so its bits are kept or not. In OpenCL it stays a branch: PoCL computes some
    convolutions wrong with masks unless it makes loops of work-items, and that masks gain there was
    not measured.
    """
    target = tvm.target.Target.current(allow_none=True)
    if target and str(target.kind) == "opencl":
        return tirx.if_then_else(condition, element, tirx.const(0.0, element.ty.dtype))
    kept = tirx.Select(condition, tirx.const(-1, "int32"), tirx.const(0, "int32"))
    return tirx.reinterpret("float32", tirx.reinterpret("int32", element) & kept)


def load_at(tensor: tirx.Buffer, outer: Sequence[ir.Expr], at: Sequence[ir.Expr]) -> ir.Expr:
    """An element by its place along the axes to walk along."""
    return load(tensor, [*outer, *padded(tensor, at)])


def padded(tensor: tirx.Buffer, at: Sequence[ir.Expr]) -> list[ir.Expr]:
    """Indices of all axes: of a dense tensor the last one may count through all."""
    return [*(index(0) for _ in range(len(tensor.shape) - 2 - len(at))), *at]
