"""Copies between layouts, in a step whose images have their channels last."""

from dataclasses import dataclass

from tvm import relax

from odtc.core.ir.layouts import permuted
from odtc.dialect.attributes import NoAttributes
from odtc.dialect.channels_last import shape_of
from odtc.dialect.operator import RelaxOperator

_CHANNELS = 3


@dataclass(frozen=True)
class Destination:
    """Where to.

    Attributes:
        to: a layout.
    """

    to: str


def _moved(call: relax.Call) -> relax.Type:
    type_ = call.args[0].ty
    shape = permuted([int(size) for size in type_.shape], relayout.read(call).to)
    return relax.TensorType(shape, type_.dtype)


def _joined(call: relax.Call) -> relax.Type:
    shapes = [shape_of(each) for each in call.args]
    channels = sum(shape[_CHANNELS] for shape in shapes)
    return relax.TensorType([*shapes[0][:_CHANNELS], channels], call.args[0].ty.dtype)


# A copy of images into another layout.
relayout = RelaxOperator(name="odtc.relayout", attributes=Destination, infer=_moved, gradient=None)
# A concat of the channels of images that have these last.
concat_last = RelaxOperator(
    name="odtc.concat_last", attributes=NoAttributes, infer=_joined, gradient=None
)
