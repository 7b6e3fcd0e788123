"""Largest and smallest elements along axes or of windows, and their places.

TVM starts from the largest finite number, and gives that where all elements are infinite; here of
infinities it is an infinity. Of a row with elements that are not a number, such a one is both the
largest and the smallest, as in PyTorch: `passes/kernel/keep_nan.py` sees to the values.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import relax, te, tirx, topi
from tvm.ir import Expr

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def extremum_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        "relax.max": _along_axes(_LARGEST),
        "relax.min": _along_axes(_SMALLEST),
        "relax.argmax": _places(_LARGEST, lambda a, b: a > b),
        "relax.argmin": _places(_SMALLEST, lambda a, b: a < b),
        "relax.nn.max_pool2d": _max_pool2d,
    }


def _largest(a: Expr, b: Expr) -> Expr:
    return tirx.max(a, b)


def _smallest(a: Expr, b: Expr) -> Expr:
    return tirx.min(a, b)


def _start(bound: Callable[[str], Expr], infinity: float, dtype: str) -> Expr:
    return tirx.const(infinity, dtype) if "float" in dtype else bound(dtype)


# What combines two elements, and from where it starts by the dtype.
_Extremum = tuple[Callable[[Expr, Expr], Expr], Callable[[str], Expr]]
_LARGEST: _Extremum = (_largest, partial(_start, tirx.min_value, -math.inf))
_SMALLEST: _Extremum = (_smallest, partial(_start, tirx.max_value, math.inf))


def _reduced(
    data: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    combine: Callable[[Callable[..., Any], list[Any]], Any],
    name: str,
) -> Any:
    """A reduction over axes: `combine` of a function from reduced positions, and these."""
    reduced = [te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes]
    kept = [axis for axis in range(len(data.shape)) if axis not in axes]

    def element(*index: Expr) -> Any:
        at = dict(zip(axes, reduced, strict=True))
        places = [index[axis] for axis in kept] if keepdims else list(index)
        at |= dict(zip(kept, places, strict=True))
        return combine(data(*(at[axis] for axis in range(len(data.shape)))), reduced)

    shape = [
        1 if axis in axes else size
        for axis, size in enumerate(data.shape)
        if keepdims or axis not in axes
    ]
    return te.compute(shape, element, name=name)


def _along_axes(extremum: _Extremum) -> Rule:
    reducer = te.comm_reducer(*extremum)

    def kernel(data: te.Tensor, axes: list[int], keepdims: bool) -> te.Tensor:
        return _reduced(data, axes, keepdims, lambda v, k: reducer(v, axis=k), "extremum")

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data,) = call.args
        rank = len(data.ty.shape)
        given = range(rank) if call.attrs.axis is None else map(int, call.attrs.axis)
        axes = sorted(axis % rank for axis in given)
        return builder.call_te(kernel, data, axes, bool(call.attrs.keepdims))

    return legalize


def _places(extremum: _Extremum, leads: Callable[[Expr, Expr], Expr]) -> Rule:
    """The place of the first extremum along an axis, or in the whole tensor."""
    start = extremum[1]

    def chosen(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (place, value), (other_place, other) = a, b
        is_first = place < other_place
        wins = tirx.Or(leads(value, other), tirx.And(tirx.EQ(value, other), is_first))
        if "float" in str(value.ty.dtype):
            alone = tirx.Or(tirx.Not(tirx.isnan(other)), is_first)
            wins = tirx.Select(tirx.isnan(value), alone, wins)
        return tirx.Select(wins, place, other_place), tirx.Select(wins, value, other)

    def none(place: str, dtype: str) -> tuple[Expr, Expr]:
        # After all places: where all elements are as the start, the first is found.
        return tirx.max_value(place), start(dtype)

    reducer = te.comm_reducer(chosen, none)

    def kernel(data: te.Tensor, axis: int, keepdims: bool) -> te.Tensor:
        def combine(value: Expr, reduced: list[Any]) -> Any:
            return reducer((reduced[0].var.astype("int64"), value), axis=reduced)

        places, _ = _reduced(data, [axis], keepdims, combine, "extremum_at")
        return te.compute(places.shape, places, name="place")

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data,) = call.args
        axis, keepdims = call.attrs.axis, bool(call.attrs.keepdims)
        if axis is None:
            raise ValueError("no kernel finds a place in a tensor of several axes")
        return builder.call_te(kernel, data, int(axis) % len(data.ty.shape), keepdims)

    return legalize


def _max_pool2d(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Max pooling of which only the values are wanted: in evaluation, or without a gradient."""
    attrs = call.attrs
    if attrs.layout != "NCHW" or attrs.ceil_mode:
        raise ValueError(f"no kernel pools {attrs.layout}, or rounds up")
    combine, start = _LARGEST
    reducer = te.comm_reducer(combine, start)
    (top, left, bottom, right), (down, across), (row_gap, column_gap), size = (
        [int(each) for each in of]
        for of in (attrs.padding, attrs.strides, attrs.dilation, attrs.pool_size)
    )

    def kernel(data: te.Tensor) -> te.Tensor:
        none = start(str(data.dtype))
        if any((top, left, bottom, right)):
            before, after = [0, 0, top, left], [0, 0, bottom, right]
            data = topi.nn.pad(data, before, after, none, name="padded")
        a, b = (te.reduce_axis((0, extent), name) for extent, name in zip(size, "ab", strict=True))
        return te.compute(
            [int(each) for each in call.ty.shape],
            lambda n, c, i, j: reducer(
                data(n, c, i * down + a * row_gap, j * across + b * column_gap), axis=[a, b]
            ),
            name="max_pool2d",
        )

    return builder.call_te(kernel, call.args[0], primfunc_name_hint="max_pool2d")
