"""The gradients of normalisations of rows, each as one operator."""

from dataclasses import dataclass

from tvm import relax

from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class LayerNorm:
    """A layer or RMS normalisation.

    Attributes:
        epsilon: what is added to the variance.
        centred: whether a mean is taken off; RMS normalisation takes none, and has no shift.
    """

    epsilon: float
    centred: bool


@dataclass(frozen=True)
class GroupNorm:
    """A group normalisation.

    Attributes:
        epsilon: what is added to the variance.
        groups: into how many the channels are cut.
    """

    epsilon: float
    groups: int


def _affine(call: relax.Call) -> relax.Type:
    """The gradients of the data, the scale and the shift."""
    grad, _, gamma = (argument.ty for argument in call.args)
    return relax.TupleType([grad, gamma, gamma])


def _layer(call: relax.Call) -> relax.Type:
    """As above; without a shift where no mean is taken off."""
    every = _affine(call)
    return every if layer_norm_backward.read(call).centred else relax.TupleType(every.fields[:2])


# Both of the adjoint, the data and the scale.
layer_norm_backward = RelaxOperator(
    name="odtc.layer_norm_backward", attributes=LayerNorm, infer=_layer, gradient=None
)
group_norm_backward = RelaxOperator(
    name="odtc.group_norm_backward", attributes=GroupNorm, infer=_affine, gradient=None
)
