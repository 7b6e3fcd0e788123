"""All operators that odtc knows; one that is not here is unsupported."""

from odtc.frontend.operators import (
    control_flow,
    indexing,
    loss,
    normalization,
    reduction,
    search,
    shape,
    slicing,
)
from odtc.frontend.operators.elements import (
    activation,
    arithmetic,
    bits,
    dropout,
    logic,
    quantization,
    random,
)
from odtc.frontend.operators.images import (
    deformable,
    padding,
    pooling,
    regions,
    resize,
    sampling,
    unpooling,
)
from odtc.frontend.operators.operator import Operator
from odtc.frontend.operators.products import (
    attention,
    cache,
    convolution,
    determinant,
    einsum,
    linear,
    linear_attention,
    signal,
)
from odtc.frontend.operators.recurrent_layers import recurrent

_FAMILIES = (
    activation,
    arithmetic,
    attention,
    bits,
    cache,
    control_flow,
    convolution,
    deformable,
    determinant,
    dropout,
    einsum,
    indexing,
    linear,
    linear_attention,
    logic,
    loss,
    normalization,
    padding,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    search,
    shape,
    signal,
    slicing,
    unpooling,
)

OPERATORS: dict[str, Operator] = {
    name: operator for family in _FAMILIES for name, operator in family.OPERATORS.items()
}
