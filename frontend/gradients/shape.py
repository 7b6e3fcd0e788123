"""Gradients of operators that cut and join tensors."""

from collections.abc import Sequence

from tvm import relax, te, tirx
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.dialect.rule import Rule


def _ints(tuple_: relax.Expr) -> list[int]:
    return [int(field) for field in tuple_.fields]


def strided_slice(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The elements that were taken get their adjoint, all others zero."""
    data, axes, begins, _ends, *steps = call.args
    strides = _ints(steps[0]) if steps else [1] * len(begins.fields)
    taken = []
    for axis, begin, step in zip(_ints(axes), _ints(begins), strides, strict=True):
        if step < 0:
            # Backwards is the same elements forwards, in the other order.
            grad = builder.emit(R.flip(grad, axis))
            last = begin + (int(grad.ty.shape[axis]) - 1) * step
            taken.append((axis, last, -step))
        else:
            taken.append((axis, begin, step))
    spread = builder.emit_te(
        _spread, grad, [int(size) for size in data.ty.shape], taken, primfunc_name_hint="spread"
    )
    return [spread, *(no_grad(each) for each in call.args[1:])]


def _spread(
    adjoint: te.Tensor, shape: Sequence[int], taken: Sequence[tuple[int, int, int]]
) -> te.Tensor:
    """A tensor of zeros, but for `adjoint` from some begin on, some step apart, along axes."""

    def element(*index: tirx.Var) -> tirx.Expr:
        source, inside = list(index), []
        for axis, begin, step in taken:
            source[axis] = place = tirx.floordiv(index[axis] - begin, step)
            inside += [index[axis] >= begin, place < adjoint.shape[axis]]
            inside += [tirx.floormod(index[axis] - begin, step) == 0] if step > 1 else []
        return tirx.if_then_else(tirx.all(*inside), adjoint(*source), tirx.const(0, adjoint.dtype))

    return te.compute(shape, element, name="spread")


def cumsum(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """An element is part of all sums from its own on: the sum from the end."""
    axis = int(call.attrs.axis)
    flipped = builder.emit(R.flip(grad, axis))
    total = builder.emit(R.cumsum(flipped, axis, exclusive=bool(call.attrs.exclusive)))
    return [R.flip(total, axis)]


RULES: dict[str, Rule] = {
    "relax.cumsum": cumsum,
    "relax.strided_slice": strided_slice,
}
