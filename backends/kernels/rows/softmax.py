"""Softmax and its logarithm over the last dimension: forward and gradient, a row at a time.

Along another axis, TVM's kernels run vectors over the dimensions after it.
"""

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of, stored
from odtc.backends.kernels.rows.passes import Lanes, Row, row_kernel, rows
from odtc.dialect.rows.softmax import safe_softmax, softmax_backward
from odtc.passes.kernel.keep_nan import larger_number

Shape = tuple[int, int]
Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def softmax_rules(lanes: Lanes) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    kinds = {
        "relax.nn.softmax": softmax_kernel,
        "relax.nn.log_softmax": log_softmax_kernel,
        safe_softmax.name: safe_softmax_kernel,
    }
    forward = {name: _forward_rule(kernel, lanes) for name, kernel in kinds.items()}
    return forward | {
        softmax_backward.name: lambda builder, call: _lower_backward(builder, call, lanes)
    }


def softmax_kernel(shape: Shape, lanes: Lanes, *, safe: bool = False) -> tirx.PrimFunc:
    """A kernel `(x, y)`, float32. If `safe`, a row that is masked as a whole is zero, not NaN."""
    count, size = shape
    row = Row(1, size, lanes)
    with row_kernel("softmax") as made:
        x, y = (T.arg(name, T.buffer(shape)) for name in "xy")
        with rows(count, math.prod(shape), lanes) as at:
            top = _largest(row, lambda i: x[at, i])

            def power(_: ir.Expr, i: ir.Expr) -> list[ir.Expr]:
                T.buffer_store(y, tirx.exp(x[at, i] - top), [at, i])
                return [y[at, i]]

            (total,) = row.fold(power)
            scale = T.bind(1.0 / total)

            def write(_: ir.Expr, i: ir.Expr) -> None:
                value = y[at, i] * scale
                if safe:
                    value = tirx.Select(tirx.isnan(value), tirx.const(0.0, "float32"), value)
                T.buffer_store(y, value, [at, i])

            row.write(write)
    return made()


def safe_softmax_kernel(shape: Shape, lanes: Lanes) -> tirx.PrimFunc:
    """A kernel `(x, y)` in which a row that is masked as a whole is zero, not NaN."""
    return softmax_kernel(shape, lanes, safe=True)


def log_softmax_kernel(shape: Shape, lanes: Lanes) -> tirx.PrimFunc:
    """A kernel `(x, y)`, float32."""
    count, size = shape
    row = Row(1, size, lanes)
    with row_kernel("log_softmax") as made:
        x, y = (T.arg(name, T.buffer(shape)) for name in "xy")
        with rows(count, math.prod(shape), lanes) as at:
            top = _largest(row, lambda i: x[at, i])
            (total,) = row.fold(lambda _, i: [tirx.exp(x[at, i] - top)])
            # Stored, not bound: TVM cannot bind an expression that binds names itself.
            level = T.sblock_alloc_buffer((1,))
            T.buffer_store(level, tirx.log(total), [0])
            row.write(lambda _, i: T.buffer_store(y, x[at, i] - top - level[0], [at, i]))
    return made()


def softmax_gradient(
    shape: Shape, stored_dtype: str, lanes: Lanes, *, log: bool = False
) -> tirx.PrimFunc:
    """A kernel `(dy, y, dx)`: `dx = y * (dy - sum(dy * y))`, or `dy - e^y * sum(dy)` of the log.

    Args:
        shape: rows and elements of a row.
        stored_dtype: of `y`; the gradients are float32.
        lanes: float32 elements in a vector.
        log: whether `y` is the logarithm.
    """
    count, size = shape
    row = Row(1, size, lanes)
    with row_kernel("softmax_gradient") as made:
        dy, y = T.arg("dy", T.buffer(shape)), T.arg("y", T.buffer(shape, stored_dtype))
        dx = T.arg("dx", T.buffer(shape))
        with rows(count, math.prod(shape), lanes) as at:

            def value(i: ir.Expr) -> ir.Expr:
                return y[at, i].astype("float32")

            def term(_: ir.Expr, i: ir.Expr) -> list[ir.Expr]:
                return [dy[at, i] if log else dy[at, i] * value(i)]

            (total,) = row.fold(term)

            def write(_: ir.Expr, i: ir.Expr) -> None:
                of_log = dy[at, i] - tirx.exp(value(i)) * total
                T.buffer_store(dx, of_log if log else value(i) * (dy[at, i] - total), [at, i])

            row.write(write)
    return made()


def _largest(row: Row, value: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    (top,) = row.fold(lambda _, i: [value(i)], -math.inf, larger_number)
    return top


def _axis(call: relax.Call) -> int:
    """The axis of one of these operators: TVM's, or one of our own."""
    attrs = call.attrs
    axis = attrs["axis"] if isinstance(attrs, ir.DictAttrs) else attrs.axis
    return int(axis) % len(call.args[0].ty.shape)


def _forward_rule(kernel: Callable[[Shape, Lanes], tirx.PrimFunc], lanes: Lanes) -> Rule:
    def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data,) = call.args
        shape, axis = shape_of(data), _axis(call)
        size = shape[axis]
        if math.prod(shape[axis + 1 :]) > 1 or str(data.ty.dtype) != "float32":
            return call.op.get_attr("FLegalize")(builder, call)
        view = (math.prod(shape) // size, size)
        name = builder.add_func(kernel(view, lanes), "softmax")
        flat = relax.Tuple([builder.emit(relax.op.reshape(data, view))])
        result = relax.call_tir(name, flat, relax.TensorType(view, "float32"))
        return relax.op.reshape(builder.emit(result), shape)

    return lower


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call, lanes: Lanes) -> relax.Expr:
    grad, result = call.args
    result, shape = stored(builder, result), shape_of(grad)
    size = shape[_axis(call)]
    view = (math.prod(shape) // size, size)
    log = softmax_backward.read(call).log
    kernel = softmax_gradient(view, str(result.ty.dtype), lanes, log=log)
    name = builder.add_func(kernel, "softmax_gradient")
    flat = relax.Tuple([builder.emit(relax.op.reshape(each, view)) for each in (grad, result)])
    found = relax.call_tir(name, flat, relax.TensorType(view, "float32"))
    return relax.op.reshape(builder.emit(found), shape)
