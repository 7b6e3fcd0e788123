"""The k largest or smallest elements along an axis, in order; of equal ones the first come first.

As in PyTorch, what is not a number is larger than all numbers.

TVM calls a function of its runtime library, which a phone need not have. This kernel inserts each
element into the list of the best so far: good for the small k of a model, quadratic for a sort.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN


def topk_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {"relax.topk": _lower}


def topk_kernel(
    outer: int, size: int, inner: int, count: int, dtype: str, largest: bool
) -> tirx.PrimFunc:
    """A kernel `(data [outer, size, inner], values, places)`, the results [outer, count, inner]."""

    def leads(value: ir.Expr, other: ir.Expr) -> ir.Expr:
        """Whether a value comes in front of one that came before; a NaN is the largest of all."""
        more, less = (value, other) if largest else (other, value)
        if not dtype.startswith("float"):
            return more > less
        return tirx.Or(more > less, tirx.And(T.isnan(more), tirx.Not(T.isnan(less))))

    @parsed.prim_func(private=True, s_tir=True)
    def topk(
        data: T.Buffer((outer, size, inner), dtype),
        values: T.Buffer((outer, count, inner), dtype),
        places: T.Buffer((outer, count, inner), "int64"),
    ):
        for row in T.parallel(outer * inner):
            with T.sblock("row"):
                r = T.axis.spatial(outer * inner, row)
                T.reads(data[r // inner, 0:size, r % inner])
                T.writes(
                    values[r // inner, 0:count, r % inner], places[r // inner, 0:count, r % inner]
                )
                at = T.sblock_alloc_buffer((1,), "int64", scope="local")
                kept = T.sblock_alloc_buffer((1,), "int64", scope="local")
                kept[0] = T.int64(0)
                for n in range(size):
                    at[0] = kept[0]
                    # Both sides of an `and` are computed: the second must not read in front.
                    while at[0] > 0 and leads(
                        data[r // inner, n, r % inner],
                        values[r // inner, T.max(at[0] - T.int64(1), T.int64(0)), r % inner],
                    ):
                        if at[0] < count:
                            values[r // inner, at[0], r % inner] = values[
                                r // inner, at[0] - 1, r % inner
                            ]
                            places[r // inner, at[0], r % inner] = places[
                                r // inner, at[0] - 1, r % inner
                            ]
                        at[0] = at[0] - T.int64(1)
                    if at[0] < count:
                        values[r // inner, at[0], r % inner] = data[r // inner, n, r % inner]
                        places[r // inner, at[0], r % inner] = T.cast(n, "int64")
                        kept[0] = T.min(kept[0] + T.int64(1), T.int64(count))

    return topk.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    (data,) = call.args
    attrs, shape = call.attrs, [int(size) for size in data.ty.shape]
    axis, count, dtype = int(attrs.axis), int(attrs.k), str(data.ty.dtype)
    plain = str(attrs.ret_type) == "both" and str(attrs.dtype) == "int64"
    if not plain:
        raise ValueError(f"no kernel gives {attrs.ret_type} as {attrs.dtype}")
    outer, size, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    largest = bool(attrs.largest)
    # The complement turns the order of integers round, where a sign would overflow.
    turned = not largest and not dtype.startswith("float")
    data = builder.emit(relax.op.bitwise_not(data)) if turned else data
    kernel = topk_kernel(outer, size, inner, count, dtype, largest or turned)
    name = builder.add_func(kernel, "topk")
    flat = builder.emit(relax.op.reshape(data, (outer, size, inner)))
    types = [relax.TensorType((outer, count, inner), kind) for kind in (dtype, "int64")]
    found = builder.emit(relax.call_tir(name, relax.Tuple([flat]), types))
    shape[axis] = count
    parts = [
        builder.emit(relax.op.reshape(builder.emit(relax.TupleGetItem(found, slot)), shape))
        for slot in range(2)
    ]
    if turned:
        parts[0] = builder.emit(relax.op.bitwise_not(parts[0]))
    return relax.Tuple(parts)
