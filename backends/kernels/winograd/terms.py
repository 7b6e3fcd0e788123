"""The transforms of Winograd's F(2x2, 3x3), as sums of values.

Two neighbours of a row under three taps, `y[o] = sum over t of d[o + t] * g[t]`, are four products
in place of six: with `G g` of the taps and `B d` of the four elements, `y = A (G g * B d)`. In two
dimensions the transforms are applied to columns, then to rows. S. Winograd, "Arithmetic complexity
of computations" (1980); A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks"
(2016). The only factor is a half, of taps, so that hardly a bit is lost.
"""

from collections.abc import Callable, Sequence

from tvm import ir

Values = Sequence[ir.Expr]
Transform = Callable[[Values], list[ir.Expr]]


def of_image(d: Values) -> list[ir.Expr]:
    """`B d`."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def of_taps(half: ir.Expr) -> Transform:
    """`G g`, given a half."""

    def transform(g: Values) -> list[ir.Expr]:
        outer, inner = (g[0] + g[2]) * half, g[1] * half
        return [g[0], outer + inner, outer - inner, g[2]]

    return transform


def of_products(m: Values) -> list[ir.Expr]:
    """`A m`."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def in_both(
    transform: Transform, rows: Sequence[Values], named: Callable[[ir.Expr], ir.Expr]
) -> list[list[ir.Expr]]:
    """The transform of each column, then of each row; `named` keeps a value for several readers."""
    columns = [[named(value) for value in transform(column)] for column in zip(*rows, strict=True)]
    return [[named(value) for value in transform(row)] for row in zip(*columns, strict=True)]
