"""Calls of one update that count as much as their labels do, as they would in one batch.

The mean of a batch is over what its labels weigh (`Loss.divisor`): how many are not ignored, say.
So the mean of the whole is that of its parts weighed by it, and so are the gradients:

    weigh     adds up the weights of an update's calls; losses and weights of those of a step
    report    what the last call of a step gives for its loss, so that the plain mean over the
              calls, which a trainer takes, is the loss of the step

A gradient is added up times the weight of its call (`accumulate_kernel`), and the control kernel
divides by the sum of the weights.
"""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.ir.mark_loss import is_not_finite
from odtc.frontend.updates.elementwise import kernel
from odtc.frontend.updates.update_kernels import f32

# Weights of an update's calls; of those of a step weights, losses times these, and losses.
IN_UPDATE, IN_STEP, WEIGHED, LOSSES = range(4)
SUMS = (4,)


def weigh_kernel(every: int, parts: int) -> tirx.PrimFunc:
    """`(sums, loss, weight, step)`: the first is changed.

    Args:
        every: so many calls make an update.
        parts: so many calls make a step; a divisor of `every`.
    """
    with kernel("weigh") as made:
        sums = T.arg("sums", T.buffer(SUMS, "float32"))
        loss, weight = _scalar("loss", "float32"), _scalar("weight", "float32")
        step = _scalar("step", "int32")
        added = {
            IN_UPDATE: (every, weight[()]),
            IN_STEP: (parts, weight[()]),
            WEIGHED: (parts, weight[()] * loss[()]),
            LOSSES: (parts, loss[()]),
        }
        for place, (period, value) in added.items():
            # Not a product: what is left there may be infinite.
            old = tirx.Select(step[()] % period == 0, f32(0.0), sums[place])
            with T.sblock("weigh"):
                T.buffer_store(sums, old + value, [place])
    return made()


def report_kernel(parts: int) -> tirx.PrimFunc:
    """`(sums, loss, step) -> loss`: as it is but for the last call of a step, if it is finite."""
    with kernel("report") as made:
        sums = T.arg("sums", T.buffer(SUMS, "float32"))
        loss, step = _scalar("loss", "float32"), _scalar("step", "int32")
        reported = T.arg("reported", T.buffer((), "float32"))
        some = sums[IN_STEP] > 0.0
        mean = sums[WEIGHED] / tirx.Select(some, sums[IN_STEP], f32(1.0))
        others = sums[LOSSES] - loss[()]
        is_last = tirx.And(step[()] % parts == parts - 1, tirx.Not(is_not_finite([loss[()]])))
        with T.sblock("report"):
            made_up = mean * f32(parts) - others
            T.buffer_store(reported, tirx.Select(is_last, made_up, loss[()]), [])
    return made()


def _scalar(name: str, dtype: str) -> Any:
    return T.arg(name, T.buffer((), dtype))
