"""Cross-entropy of rows of logits, and its derivative: no probability is stored.

The forward gives the logarithm of the label's probability, and the two parts of the logarithm of
the sum of powers, of each row; from these the derivative is one pass over the logits.
"""

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.rows.passes import Lanes, Row, row_kernel, rows
from odtc.dialect.rows.cross_entropy import cross_entropy, cross_entropy_slope
from odtc.passes.kernel.keep_nan import larger_number

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def cross_entropy_rules(lanes: Lanes) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    kinds = {
        cross_entropy.name: cross_entropy_kernel,
        cross_entropy_slope.name: cross_entropy_slope_kernel,
    }

    def rule(name: str) -> Rule:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            count, size = shape_of(call.args[0])
            kernel = builder.add_func(kinds[name]((count, size), lanes), name.split(".")[1])
            results = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else call.ty
            return relax.call_tir(kernel, relax.Tuple(list(call.args)), results)

        return lower

    return {name: rule(name) for name in kinds}


def cross_entropy_kernel(shape: tuple[int, int], lanes: Lanes) -> tirx.PrimFunc:
    """A kernel `(x, label, chosen, top, level)`: `log softmax(x) = x - top - level`.

    `chosen` is that of the label, or zero where there is no such class.

    Args:
        shape: rows and classes.
        lanes: elements of a vector.
    """
    count, size = shape
    row = Row(1, size, lanes)
    with row_kernel("cross_entropy") as made:
        x, label = T.arg("x", T.buffer(shape)), T.arg("label", T.buffer((count,), "int32"))
        chosen, top, level = (
            T.arg(name, T.buffer((count,))) for name in ("chosen", "top", "level")
        )
        with rows(count, math.prod(shape), lanes) as at:
            (most,) = row.fold(lambda _, i: [x[at, i]], -math.inf, larger_number)
            (total,) = row.fold(lambda _, i: [tirx.exp(x[at, i] - most)])
            T.buffer_store(top, most, [at])
            T.buffer_store(level, tirx.log(total), [at])
            T.buffer_store(chosen, tirx.const(0.0, "float32"), [at])
            with T.If(_is_class(label[at], size)), T.Then():
                T.buffer_store(chosen, x[at, label[at]] - top[at] - level[at], [at])
    return made()


def cross_entropy_slope_kernel(shape: tuple[int, int], lanes: Lanes) -> tirx.PrimFunc:
    """A kernel `(x, label, top, level, factor, dx)`: `dx = factor * (softmax(x) - label)`.

    In the formula the label is one-hot: one at its class, zeros elsewhere.

    Args:
        shape: rows and classes.
        lanes: elements of a vector.
    """
    count, size = shape
    row = Row(1, size, lanes)
    with row_kernel("cross_entropy_slope") as made:
        x, label = T.arg("x", T.buffer(shape)), T.arg("label", T.buffer((count,), "int32"))
        top, level, factor = (
            T.arg(name, T.buffer((count,))) for name in ("top", "level", "factor")
        )
        dx = T.arg("dx", T.buffer(shape))
        with rows(count, math.prod(shape), lanes) as at:

            def share(i: ir.Expr) -> ir.Expr:
                return tirx.exp(x[at, i] - top[at] - level[at])

            def slope(_: ir.Expr, i: ir.Expr) -> None:
                value = tirx.Select(tirx.EQ(i, label[at]), share(i) - 1.0, share(i))
                T.buffer_store(dx, value * factor[at], [at, i])

            row.write(slope)
    return made()


def _is_class(label: ir.Expr, size: int) -> ir.Expr:
    return tirx.all(label >= 0, label < size)
