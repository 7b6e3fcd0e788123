"""Running sums along an axis; TVM has no kernel for CPUs."""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from collections.abc import Callable

from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN


def cumsum_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {"relax.cumsum": _lower}


def cumsum_kernel(
    outer: int, size: int, inner: int, dtype: str, exclusive: bool = False
) -> tirx.PrimFunc:
    """A kernel `(data, result)` that sums along the middle of three dimensions.

    An exclusive sum leaves out the element at its own place.
    """
    late = 1 if exclusive else 0

    @parsed.prim_func(private=True, s_tir=True)
    def cumsum(
        data: T.Buffer((outer, size, inner), dtype),
        result: T.Buffer((outer, size, inner), dtype),
    ):
        for plane in T.parallel(outer):
            with T.sblock("plane"):
                p = T.axis.spatial(outer, plane)
                T.reads(data[p, 0:size, 0:inner])
                T.writes(result[p, 0:size, 0:inner])
                for i in range(inner):
                    result[p, 0, i] = T.cast(0, dtype) if exclusive else data[p, 0, i]
                for s, i in T.grid(size - 1, inner):
                    result[p, s + 1, i] = result[p, s, i] + data[p, s + 1 - late, i]

    return cumsum.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    (data,) = call.args
    shape, axis = [int(size) for size in data.ty.shape], int(call.attrs.axis)
    planes = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    dtype = str(data.ty.dtype)
    kernel = cumsum_kernel(*planes, dtype, bool(call.attrs.exclusive))
    name = builder.add_func(kernel, "cumsum")
    flat = builder.emit(relax.op.reshape(data, planes))
    total = builder.emit(relax.call_tir(name, relax.Tuple([flat]), relax.TensorType(planes, dtype)))
    return relax.op.reshape(total, shape)
