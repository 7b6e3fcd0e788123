"""Mean and variance of a row, as all normalisations take them.

The variance is the mean of squared distances from the mean: the mean of squares less the square of
the mean would lose its digits where the mean is large beside the deviation.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.rows.passes import Row

# From the segment and the position in it to a value of the row's dtype.
Value = Callable[[ir.Expr, ir.Expr], ir.Expr]


def mean_of(row: Row, value: Value) -> ir.Expr:
    """Emits the mean."""
    (total,) = row.fold(lambda n, i: [value(n, i)])
    return T.bind(total / _count(row))


def variance_of(row: Row, distance: Value) -> ir.Expr:
    """Emits the mean of squares: of distances from the mean, the variance."""
    (total,) = row.fold(lambda n, i: [distance(n, i) * distance(n, i)])
    return T.bind(total / _count(row))


def scale_of(row: Row, variance: ir.Expr, epsilon: float) -> ir.Expr:
    """Emits `1 / sqrt(variance + epsilon)`."""
    return inverse_root(variance, epsilon, row.dtype)


def inverse_root(variance: ir.Expr, epsilon: float, dtype: str) -> ir.Expr:
    """Emits the same for a variance of any type of floats."""
    root = tirx.sqrt(variance + tirx.const(epsilon, dtype))
    return T.bind(tirx.const(1.0, dtype) / root)


def normal_of(row: Row, value: Value, epsilon: float) -> tuple[Value, ir.Expr]:
    """Emits the statistics; gives the distance from the mean, and what makes a normal of it."""
    mean = mean_of(row, value)

    def distance(n: ir.Expr, i: ir.Expr) -> ir.Expr:
        return value(n, i) - mean

    return distance, scale_of(row, variance_of(row, distance), epsilon)


def _count(row: Row) -> ir.Expr:
    return tirx.const(float(row.segments * row.size), row.dtype)
