"""Losses: a name in the command line, and how each is written in Relax."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax

from odtc.core.errors import ModelError, UsageError
from odtc.core.specs import TensorSpec

# Labels fit 32 bits, and mobile GPUs emulate 64-bit integers.
LABEL_DTYPE = "int32"


@dataclass(frozen=True)
class Loss:
    """A loss: the spec of the target it wants, and the expression it adds to the graph.

    Attributes:
        name: as the user writes it.
        target: from the logits' spec to the spec of the target that the user feeds.
        emit: adds the mean loss over the batch, a float32 scalar, to the open dataflow block.
    """

    name: str
    target: Callable[[TensorSpec], TensorSpec]
    emit: Callable[[relax.BlockBuilder, relax.Expr, relax.Expr], relax.Expr]


def get_loss(name: str) -> Loss:
    """The loss of that name.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name not in LOSSES:
        raise UsageError(f"unknown loss {name!r}", hint=f"one of: {', '.join(LOSSES)}")
    return LOSSES[name]


def class_count(logits: TensorSpec) -> int:
    """Number of classes of `[batch, classes]` logits; trailing dimensions must be 1.

    Raises:
        ModelError: the logits have another shape.
    """
    if logits.dtype != "float32" or len(logits.shape) < 2 or math.prod(logits.shape[2:]) != 1:
        raise ModelError(
            f"cross-entropy needs float32 logits [batch, classes]; the model gives {logits}",
            where=f"output {logits.name}",
            hint="cut the model at its logits, or choose another loss",
        )
    return logits.shape[1]


def _label_spec(logits: TensorSpec) -> TensorSpec:
    class_count(logits)
    return TensorSpec("label", logits.shape[:1], LABEL_DTYPE)


def _cross_entropy(
    builder: relax.BlockBuilder, logits: relax.Expr, target: relax.Expr
) -> relax.Expr:
    batch, classes = (int(size) for size in list(logits.ty.shape)[:2])
    if len(logits.ty.shape) > 2:
        logits = builder.emit(relax.op.reshape(logits, (batch, classes)))
    log_probability = builder.emit(relax.op.nn.log_softmax(logits, axis=-1))
    return relax.op.nn.nll_loss(log_probability, target, reduction="mean")


LOSSES = {
    loss.name: loss for loss in (Loss("cross-entropy", target=_label_spec, emit=_cross_entropy),)
}
