"""The gradient of 2-D max pooling with windows of many elements, such as that of a whole image.

Each window is walked over once, element by element; of equal elements the first one wins.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from tvm import ir, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.planes import Window
from odtc.core.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN


def max_pool2d_gradient_of_large_windows(
    count: int, window: Window, dtype: str = "float32"
) -> tirx.PrimFunc:
    """A kernel `(dy, x, dx)`, each with samples and channels as one dimension of planes.

    Args:
        count: of planes.
        window: how the window walks over a plane of `x`.
        dtype: of `x`; the gradients are float32.
    """
    (height, width), (rows, columns) = window.image, window.out

    def first(axis: int, step: ir.Expr) -> ir.Expr:
        """First row or column of the image under a window; inside, whatever the window does."""
        return _first_inside(
            step * window.stride[axis] - window.pad[axis], window.dilation[axis], window.image[axis]
        )

    def extent(axis: int, step: ir.Expr) -> ir.Expr:
        """How many rows or columns of the image are under a window."""
        span = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        end = tirx.min(step * window.stride[axis] - window.pad[axis] + span, window.image[axis])
        return (end - first(axis, step) + window.dilation[axis] - 1) // window.dilation[axis]

    row_gap, column_gap = window.dilation

    @T.prim_func(private=True, s_tir=True)
    def gradient(
        dy: T.Buffer((count, rows, columns), "float32"),
        x: T.Buffer((count, height, width), dtype),
        dx: T.Buffer((count, height, width), "float32"),
    ):
        for plane in T.parallel(count):
            with T.sblock("plane"):
                p = T.axis.spatial(count, plane)
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
                    for h in range(extent(0, i)):
                        for w in range(extent(1, j)):
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
