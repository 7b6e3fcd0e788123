"""The gradient of 2-D max pooling: each output's gradient goes to the element that was the largest.

TVM's kernel asks, for every element of the image, which windows chose it. This one walks over the
windows instead, each once, as PyTorch does; of equal elements the first one wins.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from collections.abc import Callable, Sequence

from tvm import ir, relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.operand import shape_of, stored
from odtc.core.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

MAX_POOL_BACKWARD = "relax.grad.max_pool2d_backward"

Pair = tuple[int, int]


def max_pool2d_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {MAX_POOL_BACKWARD: _lower}


def max_pool2d_gradient(
    image: tuple[int, int, int, int],
    pooled: Pair,
    window: Pair,
    stride: Pair,
    pad: Pair,
    dilation: Pair,
    dtype: str = "float32",
) -> tirx.PrimFunc:
    """A kernel `(dy, x, dx)`, each with samples and channels as one dimension of planes.

    Args:
        image: shape of `x`: samples, channels, height, width.
        pooled: height and width of `dy`.
        window: height and width of a window.
        stride: steps of the window.
        pad: rows above and columns left of the image.
        dilation: steps inside the window.
        dtype: of `x`; the gradients are float32.
    """
    samples, channels, height, width = image
    rows, columns = pooled

    def first(axis: int, step: ir.Expr) -> ir.Expr:
        """First row or column of the image under a window; inside, whatever the window does."""
        return _first_inside(step * stride[axis] - pad[axis], dilation[axis], image[axis + 2])

    def count(axis: int, step: ir.Expr) -> ir.Expr:
        """Rows or columns of the image under a window."""
        span = (window[axis] - 1) * dilation[axis] + 1
        end = tirx.min(step * stride[axis] - pad[axis] + span, image[axis + 2])
        return (end - first(axis, step) + dilation[axis] - 1) // dilation[axis]

    row_gap, column_gap = dilation

    @T.prim_func(private=True, s_tir=True)
    def gradient(
        dy: T.Buffer((samples * channels, rows, columns), "float32"),
        x: T.Buffer((samples * channels, height, width), dtype),
        dx: T.Buffer((samples * channels, height, width), "float32"),
    ):
        for plane in T.parallel(samples * channels):
            with T.sblock("plane"):
                p = T.axis.spatial(samples * channels, plane)
                T.reads(dy[p, 0:rows, 0:columns], x[p, 0:height, 0:width])
                T.writes(dx[p, 0:height, 0:width])
                largest = T.sblock_alloc_buffer((1,), dtype, scope="local")
                at = T.sblock_alloc_buffer((2,), "int32", scope="local")
                for h, w in T.grid(height, width):
                    dx[p, h, w] = T.float32(0)
                for i, j in T.grid(rows, columns):
                    at[0] = first(0, i)
                    at[1] = first(1, j)
                    largest[0] = x[p, first(0, i), first(1, j)]
                    for h in range(count(0, i)):
                        for w in range(count(1, j)):
                            if (
                                x[p, first(0, i) + h * row_gap, first(1, j) + w * column_gap]
                                > largest[0]
                            ):
                                at[0] = first(0, i) + h * row_gap
                                at[1] = first(1, j) + w * column_gap
                                largest[0] = x[p, at[0], at[1]]
                    dx[p, at[0], at[1]] = dx[p, at[0], at[1]] + dy[p, i, j]

    return gradient.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})


def _first_inside(start: ir.Expr, gap: int, size: int) -> ir.Expr:
    """The first of `start`, `start + gap`, ... that is no padding in front."""
    if gap == 1:
        return tirx.min(tirx.max(start, 0), size - 1)
    return tirx.min(start + (tirx.max(-start, 0) + gap - 1) // gap * gap, size - 1)


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    dy, x = call.args[0], stored(builder, call.args[1])
    attrs = call.attrs
    if str(attrs.layout) != "NCHW" or call.ty.dtype != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    samples, channels, height, width = shape_of(x)
    rows, columns = shape_of(dy)[2:]
    kernel = max_pool2d_gradient(
        (samples, channels, height, width),
        (rows, columns),
        *map(_pair, (attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation)),
        dtype=str(x.ty.dtype),
    )
    name = builder.add_func(kernel, "max_pool2d_gradient")
    planes = [
        builder.emit(relax.op.reshape(each, (samples * channels, *shape_of(each)[2:])))
        for each in (dy, x)
    ]
    result = relax.TensorType((samples * channels, height, width), "float32")
    gradient = builder.emit(relax.call_tir(name, relax.Tuple(planes), result))
    return relax.op.reshape(gradient, shape_of(x))


def _pair(values: Sequence[ir.Expr]) -> Pair:
    first, second = (int(value) for value in list(values)[:2])
    return first, second
