"""Layer and root-mean-square normalisation over the last dimensions: forward and gradient.

Each takes a row at a time, which stays in the first cache between its passes. The backward computes
a row's statistics again, which is cheaper than to keep them for it.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of, stored
from odtc.backends.kernels.norm.moments import Value, normal_of, scale_of, variance_of
from odtc.backends.kernels.rows.passes import Lanes, Row, Team, row_kernel, rows, teams
from odtc.dialect.rows.norms import layer_norm_backward

Shape = tuple[int, int]

# Sums over rows are taken in at most so many parts, which threads share.
MAX_PARTS = 16
# The same for teams of a GPU, of which each takes a part: so many times those that keep it busy, as
# a team waits for its own sums at each row.
TEAM_PARTS = 2


def _normal(row: Row, value: Value, epsilon: float, centred: bool) -> tuple[Value, ir.Expr]:
    """Returns the value, centred if the mean is taken off, and its scale."""
    if centred:
        return normal_of(row, value, epsilon)
    return value, scale_of(row, variance_of(row, value), epsilon)


def layer_norm_kernel(
    shape: Shape, epsilon: float, lanes: Lanes, dtype: str = "float32", *, centred: bool = True
) -> tirx.PrimFunc:
    """A kernel `(x, gamma, beta, y)`, or `(x, gamma, y)` where the mean is not taken off.

    Args:
        shape: rows and elements of a row.
        epsilon: added to the variance.
        lanes: elements in a vector.
        dtype: of all tensors.
        centred: whether the mean is taken off, and a shift added.
    """
    count, size = shape
    with row_kernel("layer_norm") as made:
        x = T.arg("x", T.buffer(shape, dtype))
        gamma, *beta = (
            T.arg(name, T.buffer((size,), dtype)) for name in ("gamma", "beta")[: 1 + centred]
        )
        y = T.arg("y", T.buffer(shape, dtype))
        with rows(count, math.prod(shape), lanes) as at:
            row = Row(1, size, lanes, dtype)
            distance, scale = _normal(row, lambda _, i: x[at, i], epsilon, centred)

            def write(n: ir.Expr, i: ir.Expr) -> None:
                value = distance(n, i) * scale * gamma[i]
                T.buffer_store(y, value + beta[0][i] if beta else value, [at, i])

            row.write(write)
    return made()


def layer_norm_gradient(
    shape: Shape,
    epsilon: float,
    stored_dtype: str,
    lanes: Lanes,
    dtype: str = "float32",
    *,
    centred: bool = True,
) -> tirx.PrimFunc:
    """A kernel `(dy, x, gamma, dx, dgamma, dbeta)`; without `dbeta` where not `centred`.

    With `x' = (x - mean) * scale` and `g = gamma * dy`: `dx = scale * (g - mean(g) - x' *
    mean(g * x'))`; where the mean is not taken off, g's is not either.

    Args:
        shape: rows and elements of a row.
        epsilon: added to the variance.
        stored_dtype: of `x`.
        lanes: elements in a vector.
        dtype: of all other tensors.
        centred: whether the mean is taken off, and a shift added.
    """
    count, size = shape
    length = -(-count // (TEAM_PARTS * lanes.groups if isinstance(lanes, Team) else MAX_PARTS))
    parts, sums = -(-count // length), 1 + centred
    share, zero = tirx.const(1 / size, dtype), tirx.const(0.0, dtype)
    row = Row(1, size, lanes, dtype)
    with row_kernel("layer_norm_gradient") as made:
        dy, x = T.arg("dy", T.buffer(shape, dtype)), T.arg("x", T.buffer(shape, stored_dtype))
        gamma = T.arg("gamma", T.buffer((size,), dtype))
        dx = T.arg("dx", T.buffer(shape, dtype))
        totals = [T.arg(name, T.buffer((size,), dtype)) for name in ("dgamma", "dbeta")[:sums]]
        partial = T.sblock_alloc_buffer((sums, parts, size), dtype)

        def backward(at: ir.Expr, part: ir.Expr) -> None:
            def value(_: ir.Expr, i: ir.Expr) -> ir.Expr:
                return x[at, i].astype(dtype)

            distance, scale = _normal(row, value, epsilon, centred)

            def terms(n: ir.Expr, i: ir.Expr) -> list[ir.Expr]:
                weighted = dy[at, i] * gamma[i]
                return [weighted * distance(n, i), weighted][:sums]

            along, *total = row.fold(terms, count=sums)
            slope = T.bind(along * scale * scale * share)
            level = T.bind(total[0] * share) if total else zero

            def write(n: ir.Expr, i: ir.Expr) -> None:
                rest = dy[at, i] * gamma[i] - level - distance(n, i) * slope
                T.buffer_store(dx, rest * scale, [at, i])
                added = [dy[at, i] * (distance(n, i) * scale), dy[at, i]]
                for number, term in enumerate(added[:sums]):
                    where = [number, part, i]
                    T.buffer_store(partial, tirx.BufferLoad(partial, where) + term, where)

            row.write(write)

        with rows(parts, math.prod(shape), lanes) as part:
            for number in range(sums):
                row.write(lambda _, i, n=number: T.buffer_store(partial, zero, [n, part, i]))
            with T.serial(tirx.min(length, count - part * length)) as step:
                backward(part * length + step, part)
        if isinstance(lanes, Team):
            _fold_parts(partial, totals, lanes)
        else:
            for number, total in enumerate(totals):
                with rows(1, size, lanes):
                    _sum_parts(row, partial, number, parts, total)
    return made()


def _sum_parts(row: Row, partial: tirx.Buffer, number: int, parts: int, total: tirx.Buffer) -> None:
    """One of the sums over rows, from its parts."""
    zero = tirx.const(0.0, row.dtype)
    row.write(lambda _, i: T.buffer_store(total, zero, [i]))
    with T.serial(parts) as part:
        row.write(lambda _, i: T.buffer_store(total, total[i] + partial[number, part, i], [i]))


def _fold_parts(partial: tirx.Buffer, totals: Sequence[tirx.Buffer], team: Team) -> None:
    """The sums over rows, from their parts: a team for each element."""
    sums, parts, size = (int(each) for each in partial.shape)
    with teams(team, size) as at:
        every = Row(1, parts, team, str(partial.dtype))
        found = every.fold(lambda _, part: [partial[n, part, at] for n in range(sums)], count=sums)
        for total, value in zip(totals, found, strict=True):
            T.buffer_store(total, value, [at])


def layer_norm_rules(
    lanes: Lanes,
    kernel: Callable[..., tirx.PrimFunc] = layer_norm_kernel,
    gradient: Callable[..., tirx.PrimFunc] = layer_norm_gradient,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator.

    Args:
        lanes: elements of a vector, or a team.
        kernel: makes kernels of the forward pass, as `layer_norm_kernel`.
        gradient: makes those of the backward pass, as `layer_norm_gradient`.
    """

    def forward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        return _lower_forward(builder, call, lanes, kernel)

    def backward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        return _lower_backward(builder, call, lanes, gradient)

    return {
        "relax.nn.layer_norm": forward,
        "relax.nn.rms_norm": forward,
        layer_norm_backward.name: backward,
    }


def _lower_forward(
    builder: relax.BlockBuilder,
    call: relax.Call,
    lanes: Lanes,
    made: Callable[..., tirx.PrimFunc],
) -> relax.Expr:
    data, *affine = call.args
    shape, dtype = _as_rows(call, data), str(data.ty.dtype)
    epsilon = float(call.attrs.epsilon)
    kernel = made(shape, epsilon, lanes, dtype, centred=len(affine) == 2)
    name = builder.add_func(kernel, "layer_norm")
    operands = [builder.emit(relax.op.reshape(data, shape)), *_flat(builder, affine)]
    result = relax.call_tir(name, relax.Tuple(operands), relax.TensorType(shape, dtype))
    return relax.op.reshape(builder.emit(result), shape_of(data))


def _lower_backward(
    builder: relax.BlockBuilder,
    call: relax.Call,
    lanes: Lanes,
    made: Callable[..., tirx.PrimFunc],
) -> relax.Expr:
    grad, data, gamma = call.args
    data = stored(builder, data)
    size = math.prod(shape_of(gamma))
    shape, dtype = (math.prod(shape_of(grad)) // size, size), str(grad.ty.dtype)
    said = layer_norm_backward.read(call)
    centred, epsilon = said.centred, said.epsilon
    kernel = made(shape, epsilon, str(data.ty.dtype), lanes, dtype, centred=centred)
    name = builder.add_func(kernel, "layer_norm_gradient")
    operands = [*(builder.emit(relax.op.reshape(each, shape)) for each in (grad, data))]
    results = [relax.TensorType(s, dtype) for s in (shape, *[(size,)] * (1 + centred))]
    found = builder.emit(
        relax.call_tir(name, relax.Tuple([*operands, *_flat(builder, [gamma])]), results)
    )
    shapes = [shape_of(grad), *[shape_of(gamma)] * (1 + centred)]
    return relax.Tuple(
        [
            builder.emit(relax.op.reshape(builder.emit(relax.TupleGetItem(found, slot)), shape))
            for slot, shape in enumerate(shapes)
        ]
    )


def _as_rows(call: relax.Call, data: relax.Expr) -> Shape:
    """The tensor as rows; the operator's axes are the last ones."""
    shape = shape_of(data)
    size = math.prod(shape[len(shape) - len(call.attrs.axes) :])
    return math.prod(shape) // size, size


def _flat(builder: relax.BlockBuilder, tensors: Sequence[relax.Expr]) -> list[relax.Expr]:
    return [builder.emit(relax.op.reshape(each, (-1,))) for each in tensors]
