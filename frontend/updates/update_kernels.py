"""In-place kernels of the update, one per shape of a parameter.

`call_tir_inplace` on a parameter of the Relax function changes the caller's tensor, so no second
copy of a parameter ever exists.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.ir.kernel_marks import ONE_OF
from odtc.core.ir.mark_loss import is_not_finite, mark_where_not_finite, was_finite
from odtc.core.ir.update_marks import MARKS_LOSS, PLAIN_UPDATE
from odtc.frontend.optimizers.groups import ParameterRule
from odtc.frontend.optimizers.optimizer import Change, Element
from odtc.frontend.updates.elementwise import Index, for_each, kernel, sums

# What the control kernel tells the updates: an array of float32 with these places.
APPLIES, FACTOR, UPDATES = range(3)
CONTROL = (3,)


class TirMaths:
    """The functions of a rule as expressions of a kernel. A NaN passes through each."""

    def sqrt(self, value: ir.Expr) -> ir.Expr:
        """The square root."""
        return tirx.sqrt(value)

    def sign(self, value: ir.Expr) -> ir.Expr:
        """-1, 0 or 1."""
        return tirx.Select(value > 0.0, f32(1.0), tirx.Select(value < 0.0, f32(-1.0), value))

    def maximum(self, value: ir.Expr, least: float) -> ir.Expr:
        """The larger of a value and a number."""
        return tirx.Select(value < least, f32(least), value)

    def minimum(self, value: ir.Expr, most: float) -> ir.Expr:
        """The smaller of a value and a number."""
        return tirx.Select(value > most, f32(most), value)

    def select(self, condition: ir.Expr, then: float, otherwise: float) -> ir.Expr:
        """One of two numbers."""
        return tirx.Select(condition, f32(then), f32(otherwise))

    def one_minus_power(self, base: float, exponent: ir.Expr) -> ir.Expr:
        """`1 - base ** exponent`: near 0 by the series of `exp(x) - 1`, which cancels nothing."""
        if base == 0.0:
            return f32(1.0)
        x = T.bind(exponent * f32(math.log(base)))
        series = f32(1.0)
        for term in range(9, 1, -1):
            series = 1.0 + x * f32(1.0 / term) * series
        # The library's: it is one number, and LLVM's vectors are of no use to it.
        return tirx.Select(x > -0.5, -x * series, 1.0 - tirx.pow(f32(base), exponent))


MATHS = TirMaths()


def f32(value: float) -> ir.Expr:
    """A float32 constant."""
    return tirx.const(value, "float32")


def update_kernel(
    rule: ParameterRule,
    shape: tuple[int, ...],
    *,
    controlled: bool = False,
    every: int = 1,
    clip_value: float | None = None,
    ema: float | None = None,
) -> tirx.PrimFunc:
    """`(w, slots..., [average], g, lr, clock, loss)`: all but the last four are changed.

    The loss is marked where what is written is not finite.

    Args:
        rule: of the parameter.
        shape: of the parameter, its gradient and its state, all float32.
        controlled: whether the clock is what the control kernel gives; else it is the number of
            updates before this one, an int32 scalar.
        every: it applies at one of so many micro-batches.
        clip_value: bound of the gradient's elements.
        ema: what the moving average keeps of itself; None where there is none.
    """
    optimizer = rule.optimizer
    averages = [] if ema is None else ["average"]
    with kernel("update") as made:
        buffers = {
            # With a free offset, they may be views of larger tensors.
            name: T.arg(name, T.buffer(shape, "float32", offset_factor=1))
            for name in ("w", *optimizer.slots, *averages, "g")
        }
        lr = T.arg("lr", T.buffer((), "float32"))
        clock = T.arg("clock", T.buffer(*((CONTROL,) if controlled else ((), "int32"))))
        loss = T.arg("loss", T.buffer((), "float32"))
        with _when(clock, controlled):
            updates = T.bind(clock[UPDATES] if controlled else tirx.Cast("float32", clock[()]))
            once = {k: T.bind(v) for k, v in optimizer.once(updates, MATHS).items()}
            factor = T.bind(clock[FACTOR]) if controlled else None

            def change(values: Mapping[str, ir.Expr]) -> Change:
                g = values["g"] if factor is None else values["g"] * factor
                if clip_value is not None:
                    g = MATHS.maximum(MATHS.minimum(g, clip_value), -clip_value)
                return optimizer.rule(Element(values["w"], g, values, once, MATHS))

            rate = T.bind(lr[()] * f32(rule.lr_factor))
            if optimizer.layerwise:
                rate = T.bind(rate * _trust_ratio(shape, buffers, change))

            def update(at: Index) -> None:
                # Bound first: what is stored below reads the old values.
                old = {name: T.bind(buffer[at]) for name, buffer in buffers.items()}
                changed = change(old)
                w = T.bind(old["w"] - rate * changed.direction)
                new = {"w": w, **{slot: T.bind(v) for slot, v in changed.state.items()}}
                if ema is not None:
                    average = old["average"] + f32(1 - ema) * (w - old["average"])
                    new["average"] = T.bind(average)
                for name, value in new.items():
                    T.buffer_store(buffers[name], value, at)
                mark_where_not_finite(loss, list(new.values()))

            for_each(shape, update)
    is_plain = optimizer.is_plain and not controlled and clip_value is None and ema is None
    marks = {PLAIN_UPDATE: tirx.const(rule.lr_factor, "float32")} if is_plain else {}
    return made().with_attr({ONE_OF: every, MARKS_LOSS: True, **marks})


def _when(clock: Any, controlled: bool) -> Any:
    """Where the updates are controlled, those that do not apply are left out."""
    return _then(clock[APPLIES] > 0.0) if controlled else contextlib.nullcontext()


@contextlib.contextmanager
def _then(condition: ir.Expr) -> Iterator[None]:
    with T.If(condition), T.Then():
        yield


def _trust_ratio(shape: Sequence[int], buffers: Mapping[str, Any], change: Any) -> ir.Expr:
    """`|w| / |direction|`, and 1 where one of them is 0."""

    def squares(at: Index) -> list[ir.Expr]:
        old = {name: buffer[at] for name, buffer in buffers.items()}
        direction = change(old).direction
        return [old["w"] * old["w"], direction * direction]

    weight, direction = (T.bind(tirx.sqrt(total)) for total in sums(shape, squares))
    usable = tirx.And(weight > 0.0, direction > 0.0)
    # The divisor is never 0, even where the quotient is not used.
    return tirx.Select(usable, weight / tirx.Select(usable, direction, f32(1.0)), f32(1.0))


def accumulate_kernel(
    shape: tuple[int, ...], every: int, *, weighed: bool = False, skips: bool = False
) -> tirx.PrimFunc:
    """`(accumulator, g, step, [weight], [loss])`: adds g, to nothing at the first of `every` calls.

    It is added times the weight of the call, where there is one. Where updates may be skipped, the
    loss is looked at: with one that is not finite the sum becomes NaN, so that the update of all of
    them is left out.
    """
    with kernel("accumulate") as made:
        accumulator, g = (T.arg(name, T.buffer(shape, "float32")) for name in ("accumulator", "g"))
        step = T.arg("step", T.buffer((), "int32"))
        weight = T.arg("weight", T.buffer((), "float32")) if weighed else None
        loss = T.arg("loss", T.buffer((), "float32")) if skips else None
        is_first = T.bind(step[()] % every == 0)
        is_bad = None if loss is None else T.bind(is_not_finite([loss[()]]))

        def add(at: Index) -> None:
            # Not a product: what is left there may be infinite.
            old = tirx.Select(is_first, f32(0.0), accumulator[at])
            new = g[at] if weight is None else g[at] * weight[()]
            new = new if is_bad is None else tirx.Select(is_bad, f32(math.nan), new)
            T.buffer_store(accumulator, old + new, at)

        for_each(shape, add)
    return made()


def statistic_kernel(shape: tuple[int, ...]) -> tirx.PrimFunc:
    """`(old, new, loss)`: copies `new` over `old`, float32 tensors of `shape`.

    Those of a batch whose loss is not finite are not taken. The loss is marked where what is
    written is not finite.
    """
    with kernel("statistic") as made:
        old, new = (T.arg(name, T.buffer(shape, "float32")) for name in ("old", "new"))
        loss = T.arg("loss", T.buffer((), "float32"))

        def assign(at: Index) -> None:
            value = T.bind(new[at])
            T.buffer_store(old, value, at)
            mark_where_not_finite(loss, [value])

        with _then(was_finite(loss[()])):
            for_each(shape, assign)
    return made().with_attr(MARKS_LOSS, True)
