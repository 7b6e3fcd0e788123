"""Random tensors, whose numbers follow from the step."""

from dataclasses import dataclass

from tvm import relax

from odtc.dialect.attributes import Ints
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Numbers:
    """The attributes of random tensors.

    Attributes:
        shape: of the float32 result.
        keep: the share of ones in a mask of ones and zeros, in (0, 1]; 0 for uniform numbers in
            [0, 1).
        stream: number of the node; each has numbers of its own.
        seed: of all numbers, below 2**63.
    """

    shape: Ints
    keep: float
    stream: int
    seed: int


def _infer(call: relax.Call) -> relax.Type:
    return relax.TensorType(random.read(call).shape, "float32")


# Of the step.
random = RelaxOperator(
    name="odtc.random", attributes=Numbers, infer=_infer, gradient=None, draws=True
)
