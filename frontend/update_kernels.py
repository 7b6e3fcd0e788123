"""In-place update kernels of the optimizers, as PrimFuncs.

`call_tir_inplace` on a parameter of the Relax function changes the caller's tensor, so no second
copy of a parameter ever exists.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

# A kernel is cut into at most so many equal chunks; smaller ones than this many elements into none.
MAX_CHUNKS = 64
PARALLEL_ELEMENTS = 1 << 15

# From the elements at one index, by argument name, to the new values of those that change, in the
# order in which they are stored: a later one may use the new value of an earlier one.
Element = dict[str, ir.Expr]
Rule = Callable[[Element, Callable[[str, ir.Expr], ir.Expr]], None]


def sgd_kernel(shape: tuple[int, ...], momentum: float, weight_decay: float) -> tirx.PrimFunc:
    """`(w, [v], g, lr)`: float32 tensors of `shape`, and the learning rate as a scalar."""

    def update(at: Element, store: Callable[[str, ir.Expr], ir.Expr]) -> None:
        step = at["g"] + _f32(weight_decay) * at["w"] if weight_decay else at["g"]
        if momentum:
            step = store("v", _f32(momentum) * at["v"] + step)
        store("w", at["w"] - at["lr"] * step)

    state = ["v"] if momentum else []
    return _elementwise("sgd", shape, ["w", *state, "g"], ["lr"], update)


def assign_kernel(shape: tuple[int, ...]) -> tirx.PrimFunc:
    """`(old, new)`: copies `new` over `old`, float32 tensors of `shape`."""
    return _elementwise("assign", shape, ["old", "new"], [], lambda at, put: put("old", at["new"]))


def _f32(value: float) -> ir.Expr:
    return tirx.const(value, "float32")


def _elementwise(
    name: str, shape: tuple[int, ...], tensors: Sequence[str], scalars: Sequence[str], rule: Rule
) -> tirx.PrimFunc:
    """A kernel over dense tensors of one shape, scheduled as it is written.

    TVM's schedule primitives refuse blocks that read what they write, so the parallel loop is part
    of the kernel. Its body is a plain loop over flat indices, which LLVM vectorises.
    """
    size = math.prod(shape)
    chunks = next(n for n in range(min(MAX_CHUNKS, size), 0, -1) if size % n == 0)
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            # Fusion would lose what is changed in place.
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            buffers = {n: T.arg(n, T.buffer(shape, "float32")) for n in tensors}
            buffers |= {n: T.arg(n, T.buffer((), "float32")) for n in scalars}
            loop = T.parallel if size >= PARALLEL_ELEMENTS else T.serial
            with loop(chunks) as chunk, T.serial(size // chunks) as position, T.sblock("update"):
                flat = T.axis.spatial(size, chunk * (size // chunks) + position)
                at = _unflatten(flat, shape)
                index = {n: at if n in tensors else [] for n in buffers}

                def store(target: str, value: ir.Expr) -> ir.Expr:
                    T.buffer_store(buffers[target], value, index[target])
                    return tirx.BufferLoad(buffers[target], index[target])

                rule({n: tirx.BufferLoad(buffers[n], index[n]) for n in buffers}, store)
        return builder.get()


def _unflatten(flat: ir.Expr, shape: tuple[int, ...]) -> list[ir.Expr]:
    """Indices of an element of a dense tensor from its position in memory."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inner = [flat if axis == 0 else flat % (strides[axis - 1]) for axis in range(len(shape))]
    return [
        index if stride == 1 else index // stride
        for index, stride in zip(inner, strides, strict=True)
    ]
