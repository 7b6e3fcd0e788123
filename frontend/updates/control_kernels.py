"""Values that all updates of a step share: whether they apply, and the factor of every gradient.

    total    one call per gradient, each adding to what it is given: the sum of the squares, without
             the loss scale, and the number of elements that are not finite
    control  from the step, the total and the loss scale to `(applies, factor, updates before)`
    rescale  the new loss scale, after the step

Gradient accumulation, clipping by norm and loss scaling meet in `factor`; an update that is left
out, at a micro-batch or for a gradient that is not finite, in `applies`.
"""

from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.ir.kernel_marks import TOTAL_OF
from odtc.core.ir.mark_loss import is_not_finite
from odtc.frontend.optimizers.update import LossScale, Update
from odtc.frontend.updates.elementwise import Index, kernel, sums
from odtc.frontend.updates.update_kernels import APPLIES, CONTROL, FACTOR, MATHS, UPDATES, f32
from odtc.frontend.updates.weighing_kernels import IN_UPDATE, SUMS

SQUARES, NOT_FINITE = range(2)
TOTAL = (2,)

_LARGEST = 3.4028234663852886e38
_TINY = 1.1754943508222875e-38
# Keeps the divisor above 0, as `torch.nn.utils.clip_grad_norm_` has it.
_NORM_EPS = 1e-6


def total_kernel(shape: tuple[int, ...], every: int, *, scaled: bool) -> tirx.PrimFunc:
    """`(g, total before, step, [loss scale]) -> total`: float32 of the shape `TOTAL`.

    Only the last of `every` micro-batches is looked at: the others make no update.
    """
    with kernel("total") as made:
        g = T.arg("g", T.buffer(shape, "float32"))
        before = T.arg("before", T.buffer(TOTAL, "float32"))
        step = _scalar("step", "int32")
        scale = _scalar("scale", "float32") if scaled else None
        after = T.arg("after", T.buffer(TOTAL, "float32"))

        def terms(at: Index) -> list[ir.Expr]:
            # Not `abs`: the comparison must be false for a NaN.
            finite = tirx.And(g[at] <= _LARGEST, g[at] >= -_LARGEST)
            # The square of a scaled gradient may leave float32 where the gradient does not.
            value = g[at] if unscale is None else g[at] * unscale
            return [value * value, tirx.Select(finite, f32(0.0), f32(1.0))]

        unscale = None if scale is None else T.bind(1.0 / scale[()])
        T.buffer_store(after, before[SQUARES], [SQUARES])
        T.buffer_store(after, before[NOT_FINITE], [NOT_FINITE])
        with T.If(_is_last(step, every)), T.Then():
            for place, value in enumerate(sums(shape, terms)):
                T.buffer_store(after, before[place] + value, [place])
    return made().with_attr(TOTAL_OF, every)


def loss_total_kernel() -> tirx.PrimFunc:
    """`(loss) -> total` before any gradient: a loss that is not finite counts as an element.

    Its gradients may be finite all the same, and would move the weights by as much as it is wrong.
    """
    with kernel("loss_total") as made:
        loss = _scalar("loss", "float32")
        total = T.arg("total", T.buffer(TOTAL, "float32"))
        with T.sblock("loss"):
            T.buffer_store(total, f32(0.0), [SQUARES])
            found = tirx.Select(is_not_finite([loss[()]]), f32(1.0), f32(0.0))
            T.buffer_store(total, found, [NOT_FINITE])
    return made()


@dataclass(frozen=True)
class Control:
    """The control kernel of an update.

    Attributes:
        update: what it controls.
        weighed: whether the calls of an update weigh something, whose sum is one more operand.
    """

    update: Update
    weighed: bool = False

    def kernel(self) -> tirx.PrimFunc:
        """`(step, [total], [loss scale], [updates], [weights]) -> control`."""
        update = self.update
        with kernel("control") as made:
            step = _scalar("step", "int32")
            total = T.arg("total", T.buffer(TOTAL, "float32")) if update.needs_total else None
            scale = _scalar("scale", "float32") if update.scaling else None
            updates = _scalar("updates", "int32") if update.skips else None
            weights = T.arg("weights", T.buffer(SUMS, "float32")) if self.weighed else None
            control = T.arg("control", T.buffer(CONTROL, "float32"))
            made_before = updates[()] if updates is not None else step[()] // update.accumulate
            applies = _is_last(step, update.accumulate)
            if update.skips and total is not None:
                applies = tirx.And(applies, total[NOT_FINITE] == 0.0)
            with T.sblock("control"):
                T.buffer_store(control, tirx.Select(applies, f32(1.0), f32(0.0)), [APPLIES])
                T.buffer_store(control, self._factor(total, scale, weights), [FACTOR])
                T.buffer_store(control, tirx.Cast("float32", made_before), [UPDATES])
        return made()

    def _factor(self, total: Any, scale: Any, weights: Any) -> ir.Expr:
        """The mean over micro-batches, without the loss scale, clipped by norm."""
        share = f32(1.0 / self.update.accumulate) if weights is None else _share_of(weights)
        factor = share if scale is None else T.bind(share / scale[()])
        if self.update.clip_norm is None:
            return factor
        norm = T.bind(tirx.sqrt(total[SQUARES]) * share)
        wanted = T.bind(f32(self.update.clip_norm) / (norm + f32(_NORM_EPS)))
        return factor * MATHS.minimum(wanted, 1.0)


def _share_of(weights: Any) -> ir.Expr:
    """One over what the calls of an update weigh; 0 where that is nothing."""
    total = T.bind(weights[IN_UPDATE])
    share = f32(1.0) / tirx.Select(total > 0.0, total, f32(1.0))
    return T.bind(tirx.Select(total > 0.0, share, f32(0.0)))


def count_kernel(every: int) -> tirx.PrimFunc:
    """`(updates, total, step)`: the first is changed, where the update was made."""
    with kernel("count") as made:
        updates = _scalar("updates", "int32")
        total = T.arg("total", T.buffer(TOTAL, "float32"))
        step = _scalar("step", "int32")
        is_made = tirx.And(_is_last(step, every), total[NOT_FINITE] == 0.0)
        with T.If(is_made), T.Then():
            T.buffer_store(updates, updates[()] + 1, [])
    return made()


def rescale_kernel(scaling: LossScale, every: int) -> tirx.PrimFunc:
    """`(scale, good, updates, total, step)`: the first three are changed."""
    with kernel("rescale") as made:
        scale = _scalar("scale", "float32")
        good, updates = _scalar("good", "int32"), _scalar("updates", "int32")
        total = T.arg("total", T.buffer(TOTAL, "float32"))
        step = _scalar("step", "int32")
        with T.If(_is_last(step, every)), T.Then(), T.If(total[NOT_FINITE] == 0.0):
            with T.Then():
                T.buffer_store(updates, updates[()] + 1, [])
                grows = T.bind(good[()] + 1 == scaling.interval)
                larger = T.bind(scale[()] * f32(scaling.growth))
                # A scale that left the finite numbers would never come back.
                grown = tirx.Select(larger <= _LARGEST, larger, scale[()])
                T.buffer_store(scale, tirx.Select(grows, grown, scale[()]), [])
                T.buffer_store(good, tirx.Select(grows, 0, good[()] + 1), [])
            with T.Else():
                T.buffer_store(scale, tirx.max(scale[()] * f32(scaling.backoff), f32(_TINY)), [])
                T.buffer_store(good, 0, [])
    return made()


def _scalar(name: str, dtype: str) -> Any:
    return T.arg(name, T.buffer((), dtype))


def _is_last(step: Any, every: int) -> ir.Expr:
    """Whether the step is the last of a round of micro-batches."""
    return step[()] % every == every - 1
