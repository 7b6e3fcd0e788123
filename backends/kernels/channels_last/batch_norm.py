"""Batch normalisation in training of tensors whose channels are last, and its gradient.

They compute what `batch_norm.py` says, in passes over whole pixels: `pixel_rows.py`.
"""

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last.pixel_rows import ChannelVector, Pixels
from odtc.backends.kernels.common.activations import activated
from odtc.backends.kernels.rows.passes import row_kernel


def batch_norm_last(
    matrix: tuple[int, int],
    epsilon: float,
    momentum: float,
    lanes: int,
    activation: str = "",
    correction: float = 1.0,
) -> tirx.PrimFunc:
    """A kernel `(x, gamma, beta, running_mean, running_var, y, new_mean, new_var, mean, scale)`.

    Args:
        matrix: pixels of all samples, and channels, of `x` and `y`; the rest is per channel.
        epsilon: added to the variance.
        momentum: the share of the new statistics.
        lanes: elements in a vector.
        activation: name of an operator of `ACTIVATIONS` that `y` has after it, or nothing.
        correction: of the batch's variance, for the running one.
    """
    shares = momentum, momentum * correction
    of = Pixels(*matrix, lanes)
    with row_kernel("batch_norm") as made:
        x = T.arg("x", T.buffer(matrix, "float32"))
        gamma, beta, *running = _per_channel(of, "gamma", "beta", "old_mean", "old_var")
        y = T.arg("y", T.buffer(matrix, "float32"))
        *changed, mean_out, scale_out = _per_channel(of, "new_mean", "new_var", "mean", "scale")
        with T.sblock("rows"):
            means, variances = of.moments(lambda p, at: of.load(x, [p, at.channels]))
            factors, shifts = of.row(), of.row()
            with of.each_vector() as at:
                mean = of.load(means, [at.slot])
                variance = of.load(variances, [at.slot])
                scale = of.number(1.0) / tirx.sqrt(variance + of.number(epsilon))
                moving = zip(running, changed, (mean, variance), shares, strict=True)
                for old, new, value, share in moving:
                    kept = of.load(old, [at.channels]) * of.number(1 - momentum)
                    T.buffer_store(new, kept + value * of.number(share), [at.channels])
                T.buffer_store(mean_out, mean, [at.channels])
                T.buffer_store(scale_out, scale, [at.channels])
                T.buffer_store(factors, of.load(gamma, [at.channels]) * scale, [at.slot])
                T.buffer_store(shifts, of.load(beta, [at.channels]), [at.slot])

            def write(p: ir.Expr, at: ChannelVector) -> None:
                mean, factor, shift = (of.load(row, [at.slot]) for row in (means, factors, shifts))
                value = (of.load(x, [p, at.channels]) - mean) * factor + shift
                T.buffer_store(y, activated(activation, value, of.number), [p, at.channels])

            of.write(write)
    return made()


def batch_norm_last_gradient(
    matrix: tuple[int, int], stored_dtype: str, lanes: int
) -> tirx.PrimFunc:
    """A kernel `(dy, x, gamma, mean, scale, dx, dgamma, dbeta)`.

    Args:
        matrix: pixels of all samples, and channels.
        stored_dtype: of `x`.
        lanes: elements in a vector.
    """
    of = Pixels(*matrix, lanes)
    share = of.number(1 / of.count)
    with row_kernel("batch_norm_gradient") as made:
        dy = T.arg("dy", T.buffer(matrix, "float32"))
        x = T.arg("x", T.buffer(matrix, stored_dtype))
        gamma, mean_in, scale_in = _per_channel(of, "gamma", "mean", "scale")
        dx = T.arg("dx", T.buffer(matrix, "float32"))
        dgamma, dbeta = _per_channel(of, "dgamma", "dbeta")

        def both(p: ir.Expr, at: ChannelVector) -> tuple[ir.Expr, ir.Expr]:
            """The adjoint, and the distance from the mean."""
            mean = of.load(mean_in, [at.channels])
            return of.load(dy, [p, at.channels]), of.load(x, [p, at.channels]) - mean

        def terms(p: ir.Expr, at: ChannelVector) -> list[ir.Expr]:
            adjoint, distance = both(p, at)
            return [adjoint, adjoint * distance]

        with T.sblock("rows"):
            totals, alongs = of.sums(terms, count=2)
            factors, levels, slopes = of.row(), of.row(), of.row()
            with of.each_vector() as at:
                scale, along = of.load(scale_in, [at.channels]), of.load(alongs, [at.slot])
                T.buffer_store(dbeta, of.load(totals, [at.slot]), [at.channels])
                T.buffer_store(dgamma, along * scale, [at.channels])
                T.buffer_store(factors, of.load(gamma, [at.channels]) * scale, [at.slot])
                T.buffer_store(levels, of.load(totals, [at.slot]) * share, [at.slot])
                T.buffer_store(slopes, along * scale * scale * share, [at.slot])

            def write(p: ir.Expr, at: ChannelVector) -> None:
                adjoint, distance = both(p, at)
                factor, level, slope = (of.load(r, [at.slot]) for r in (factors, levels, slopes))
                rest = adjoint - level - distance * slope
                T.buffer_store(dx, factor * rest, [p, at.channels])

            of.write(write)
    return made()


def _per_channel(of: Pixels, *names: str) -> list[tirx.Buffer]:
    return [T.arg(name, T.buffer((of.channels,), "float32")) for name in names]
