"""Batch normalisation in training: what the backward pass needs of the statistics is a result.

A reader may apply it itself: then its statistics alone are taken, see
`passes/graph/read_normalised.py`.
"""

from dataclasses import dataclass, field

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.core.ir.layouts import SECOND
from odtc.dialect.channels_last import ChannelsLast, is_of_images
from odtc.dialect.elements.pointwise import relu6
from odtc.dialect.operator import RelaxOperator

# The activations that it can apply; their gradients read their results.
ACTIVATIONS = ("relax.nn.relu", relu6.name)


@dataclass(frozen=True)
class Rates:
    """How statistics are taken.

    Attributes:
        epsilon: what is added to the variance.
        momentum: the share of the batch's statistics in the new running ones.
        correction: of the variance of the batch for that share: n / (n - 1) where it is PyTorch's.
    """

    epsilon: float
    momentum: float
    correction: float = field(default=1.0, kw_only=True)


@dataclass(frozen=True)
class Normalisation(Rates):
    """The same, with what is normalised.

    Attributes:
        activation: the name of an operator of `ACTIVATIONS` that is applied after it, or nothing.
        layout: of the images.
    """

    activation: str
    layout: str = SECOND


@dataclass(frozen=True)
class Layout:
    """The attributes of the gradient.

    Attributes:
        layout: of the images.
    """

    layout: str = SECOND


@dataclass(frozen=True)
class Activation:
    """The activation that is applied after it.

    Attributes:
        activation: as of `Normalisation`.
    """

    activation: str


def _forward(call: relax.Call) -> relax.Type:
    """The normalised data; new mean and variance; the batch's mean, and one over its deviation."""
    data, gamma, *_ = (argument.ty for argument in call.args)
    return relax.TupleType([data, *[gamma] * 4])


def _backward(call: relax.Call) -> relax.Type:
    """The gradients of the data, the scale and the shift."""
    grad, _, gamma, *_ = (argument.ty for argument in call.args)
    return relax.TupleType([grad, gamma, gamma])


def _statistics(call: relax.Call) -> relax.Type:
    """The last four results of batch normalisation."""
    return relax.TupleType([call.args[1].ty] * 4)


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """By the batch statistics that the forward pass kept; running ones get no gradient."""
    data, gamma, _beta, *running = call.args
    # The statistics are no part of the loss.
    first = grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)
    statistics = [builder.emit(relax.TupleGetItem(result, slot)) for slot in (3, 4)]
    found = builder.emit(batch_norm_backward(first, data, gamma, *statistics))
    return [*(relax.TupleGetItem(found, slot) for slot in range(3)), *map(no_grad, running)]


# Of data, scale, shift, running mean and variance.
batch_norm = RelaxOperator(
    name="odtc.batch_norm",
    attributes=Normalisation,
    infer=_forward,
    gradient=_gradient,
    channels_last=ChannelsLast((0,), is_of_images),
)
# Of the adjoint, data, scale, and the last two results.
batch_norm_backward = RelaxOperator(
    name="odtc.batch_norm_backward",
    attributes=Layout,
    infer=_backward,
    gradient=None,
    channels_last=ChannelsLast((0, 1), is_of_images),
)
# Of data, running mean and variance.
batch_statistics = RelaxOperator(
    name="odtc.batch_statistics", attributes=Rates, infer=_statistics, gradient=None
)
# What a reader makes of data, the batch's mean, scale, one over the deviation, and shift.
normalised = RelaxOperator(name="odtc.normalised", attributes=Activation, gradient=None)
