"""Kernels that change what a step keeps mark its loss where they write what is not finite.

The loss is given to them as what they read. That they also write it orders no calls: whichever is
first to mark it, it ends as the same NaN; see `odtc/core/ir/marked_loss.py`.
"""

import functools
from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.ir.marked_loss import (
    DROPPED,
    INFINITE,
    LEAST_PAYLOAD,
    MAGNITUDE,
    PAYLOAD,
    QUIET_NAN,
)


def mark_where_not_finite(loss: Any, values: Sequence[ir.Expr]) -> None:
    """Marks a loss, a float32 scalar, where one of these float32 values is infinite or a NaN."""
    with T.If(is_not_finite(values)), T.Then():
        T.buffer_store(loss, marked(loss[()]), [])


def is_not_finite(values: Sequence[ir.Expr]) -> ir.Expr:
    """Whether one of these float32 values is infinite or a NaN."""
    return functools.reduce(tirx.max, map(_magnitude, values)) >= INFINITE


def was_finite(loss: ir.Expr) -> ir.Expr:
    """Whether a loss is finite, or was until it was marked: no mark changes the answer.

    So a kernel whose threads mark the loss may ask this in each of them.
    """
    # Read once: another thread may mark it meanwhile.
    bits = tirx.Var("bits", "int32")
    size, payload = (tirx.bitwise_and(bits, mask) for mask in (MAGNITUDE, PAYLOAD))
    inside = tirx.bitwise_and(payload << DROPPED, MAGNITUDE)
    is_marked = tirx.all(size > INFINITE, payload > 0, inside < INFINITE)
    return tirx.Let(bits, _bits(loss), tirx.any(size < INFINITE, is_marked))


def marked(loss: ir.Expr) -> ir.Expr:
    """The NaN that holds a loss; a NaN as it is."""
    bits = _bits(loss)
    inside = tirx.max(tirx.bitwise_and(bits >> DROPPED, PAYLOAD), LEAST_PAYLOAD)
    nan = tirx.reinterpret("float32", tirx.bitwise_or(inside, QUIET_NAN))
    return tirx.Select(_magnitude(loss) > INFINITE, loss, nan)


def _magnitude(value: ir.Expr) -> ir.Expr:
    """The bits of a value without its sign: in the order of magnitudes."""
    return tirx.bitwise_and(_bits(value), MAGNITUDE)


def _bits(value: ir.Expr) -> ir.Expr:
    return tirx.reinterpret("int32", value)
