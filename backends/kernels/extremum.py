"""Largest and smallest elements along axes: of infinities, an infinity.

TVM starts from the largest finite number, and gives that where all elements are infinite.
"""

import math
from collections.abc import Callable

from tvm import relax, te, tirx
from tvm.ir import Expr


def extremum_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        "relax.max": _rule(tirx.max, tirx.min_value, -math.inf),
        "relax.min": _rule(tirx.min, tirx.max_value, math.inf),
    }


def _rule(
    choose: Callable[[Expr, Expr], Expr], bound: Callable[[str], Expr], infinity: float
) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    def start(dtype: str) -> Expr:
        return tirx.const(infinity, dtype) if "float" in dtype else bound(dtype)

    def chosen(a: Expr, b: Expr) -> Expr:
        return choose(a, b)

    reducer = te.comm_reducer(chosen, start)

    def kernel(data: te.Tensor, axes: list[int], keepdims: bool) -> te.Tensor:
        reduced = [te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes]
        kept = [axis for axis in range(len(data.shape)) if axis not in axes]

        def element(*index: Expr) -> Expr:
            at = dict(zip(axes, reduced, strict=True))
            places = [index[axis] for axis in kept] if keepdims else list(index)
            at |= dict(zip(kept, places, strict=True))
            return reducer(data(*(at[axis] for axis in range(len(data.shape)))), axis=reduced)

        shape = [
            1 if axis in axes else size
            for axis, size in enumerate(data.shape)
            if keepdims or axis not in axes
        ]
        return te.compute(shape, element, name="extremum")

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data,) = call.args
        rank = len(data.ty.shape)
        given = range(rank) if call.attrs.axis is None else map(int, call.attrs.axis)
        axes = sorted(axis % rank for axis in given)
        return builder.call_te(kernel, data, axes, bool(call.attrs.keepdims))

    return legalize
