"""All operators that odtc knows; one that is not here is unsupported."""

from odtc.frontend.operators import (
    activation,
    arithmetic,
    convolution,
    dropout,
    indexing,
    linear,
    logic,
    loss,
    normalization,
    padding,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
    slicing,
)
from odtc.frontend.operators.operator import Operator

_FAMILIES = (
    activation,
    arithmetic,
    convolution,
    dropout,
    indexing,
    linear,
    logic,
    loss,
    normalization,
    padding,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
    slicing,
)

OPERATORS: dict[str, Operator] = {
    name: operator for family in _FAMILIES for name, operator in family.OPERATORS.items()
}
