"""Follows random masks through products and sums by numbers, and finds which are a dropout.

A product with a mask whose mean is one is a dropout. `nn.AlphaDropout` (Klambauer et al. 2017)
multiplies by a mask and adds one, so that mean and variance stay; the mean of its mask would scale
what it drops, and inference leaves it out:

    result = Add(Mul(data, a * keep), b + c * (1 - keep))
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import onnx

from odtc.core.onnx_model.random_masks import LIKE, Constant, Producers, mask_of

# Exporters write 1 - p in float32, and its inverse.
_NEAR = 1e-3


@dataclass(frozen=True)
class Masked:
    """A random mask after products and sums by numbers: `slope * mask + offset`.

    Attributes:
        mask: the name of the mask itself.
        share: of its ones.
        slope: what it is multiplied by.
        offset: what is added.
    """

    mask: str
    share: float
    slope: float = 1.0
    offset: float = 0.0

    @property
    def mean(self) -> float:
        """Its mean, which stands in its place in inference."""
        return self.slope * self.share + self.offset

    def then(self, factor: float, term: float = 0.0) -> "Masked":
        """The same, multiplied by a number and with one added to it."""
        return replace(self, slope=self.slope * factor, offset=self.offset * factor + term)


@dataclass(frozen=True)
class AlphaDropout:
    """A sum that keeps mean and variance while it drops elements.

    Attributes:
        data: what it is in inference.
        masked: the mask, after the products and sums by numbers that make a factor of it.
    """

    data: str
    masked: Masked


def dropped_out(node: onnx.NodeProto, producers: Producers, constant: Constant) -> str | None:
    """The data of a dropout's last node, which inference leaves out; None of other nodes.

    That is a product with a mask whose mean is one, or the sum of an AlphaDropout.
    """
    alpha = alpha_dropout(node, producers, constant)
    if alpha is not None:
        return alpha.data
    if node.op_type != "Mul":
        return None
    for mask, data in (node.input, reversed(node.input)):
        masked = masked_of(mask, producers, constant)
        if masked is not None and math.isclose(masked.mean, 1.0, rel_tol=_NEAR):
            return data
    return None


def alpha_dropout(
    node: onnx.NodeProto, producers: Producers, constant: Constant
) -> AlphaDropout | None:
    """The AlphaDropout that a node is the sum of; None of other nodes.

    What is dropped becomes a number; the factor and the sum are such that data of mean 0 and
    variance 1 keep both.
    """
    if node.op_type != "Add":
        return None
    for product, added in (node.input, reversed(node.input)):
        maker, shift = producers.get(product), masked_of(added, producers, constant)
        if maker is None or maker.op_type != "Mul" or shift is None or not shift.slope:
            continue
        for name, data in (maker.input, reversed(maker.input)):
            factor = masked_of(name, producers, constant)
            if factor is not None and factor.mask == shift.mask and _keeps_moments(factor, shift):
                return AlphaDropout(data, factor)
    return None


def masked_of(name: str, producers: Producers, constant: Constant) -> Masked | None:
    """The mask that a tensor is made from by numbers alone; None where it is another tensor."""
    steps: list[tuple[float, float]] = []
    while (node := producers.get(name)) is not None:
        mask = mask_of(node, producers, constant)
        if mask is not None:
            found = Masked(name, mask.share)
            for factor, term in reversed(steps):
                found = found.then(factor, term)
            return found
        if node.op_type in LIKE:
            name = node.input[0]
            continue
        step = _step(node, constant)
        if step is None:
            return None
        name, factor, term = step
        steps.append((factor, term))
    return None


def _step(node: onnx.NodeProto, constant: Constant) -> tuple[str, float, float] | None:
    """The tensor that a node multiplies by a number, and what it adds; None of another node."""
    rule = _STEPS.get(node.op_type)
    if rule is None:
        return None
    left, right = node.input
    number, data = constant(right), left
    is_first = number is None
    if is_first:
        number, data = constant(left), right
    if number is None:
        return None
    step = rule(number, is_first)
    return None if step is None else (data, *step)


# By operator: the factor and the term of a number, which may stand first.
_STEPS: Mapping[str, Callable[[float, bool], tuple[float, float] | None]] = {
    "Add": lambda number, _: (1.0, number),
    "Div": lambda number, is_first: None if is_first or not number else (1.0 / number, 0.0),
    "Mul": lambda number, _: (number, 0.0),
    "Sub": lambda number, is_first: (-1.0, number) if is_first else (1.0, -number),
}


def _keeps_moments(factor: Masked, shift: Masked) -> bool:
    """Whether zeros stay zero in the mean, and a variance of one stays one."""
    share = factor.share
    size = max(abs(shift.offset), abs(shift.slope + shift.offset))
    spread = share * factor.slope**2 + share * (1 - share) * shift.slope**2
    return (
        abs(factor.offset) <= _NEAR * abs(factor.slope)
        and abs(shift.mean) <= _NEAR * size
        and math.isclose(spread, 1.0, rel_tol=_NEAR)
    )
