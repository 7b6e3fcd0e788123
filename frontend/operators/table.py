"""All operators that odtc knows; one that is not here is unsupported."""

from odtc.frontend.operators import (
    activation,
    arithmetic,
    attention,
    cache,
    control_flow,
    convolution,
    determinant,
    dropout,
    einsum,
    indexing,
    linear,
    logic,
    loss,
    normalization,
    padding,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    search,
    shape,
    slicing,
    unpooling,
)
from odtc.frontend.operators.operator import Operator

_FAMILIES = (
    activation,
    arithmetic,
    attention,
    cache,
    control_flow,
    convolution,
    determinant,
    dropout,
    einsum,
    indexing,
    linear,
    logic,
    loss,
    normalization,
    padding,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    search,
    shape,
    slicing,
    unpooling,
)

OPERATORS: dict[str, Operator] = {
    name: operator for family in _FAMILIES for name, operator in family.OPERATORS.items()
}
