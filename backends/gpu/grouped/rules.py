"""2-D convolutions in groups and their gradients on a GPU.

Their loops are written once it is known what is fused after them (`loops.py`), unless a
window is large: then each result is a plain sum.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import tvm_ffi
from tvm import ir, relax, tirx

from odtc.backends.gpu.windows import or_zero
from odtc.backends.kernels.common.operand import stored
from odtc.backends.kernels.convolution.rules import marked
from odtc.backends.kernels.convolution.terms import Convolution, shapes_of
from odtc.backends.kernels.grouped.rules import CONV, TRANSPOSED, is_grouped
from odtc.backends.kernels.pool.planes import pair
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

# Taps of a window, and remainders by the strides, that are written out for each row of a strip.
_MOST_TAPS, _MOST_PHASES = 81, 16

_FAMILIES = {
    CONV: "convolution",
    TRANSPOSED: "data-gradient",
    grouped_weight_gradient.name: "weight-gradient",
}


def grouped_rules(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Legalisation rules by operator: `rules`, with those for groups in front of them."""

    def rule(name: str) -> Rule:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            if not is_grouped(call):
                otherwise = rules.get(name) or call.op.get_attr("FLegalize")
                return otherwise(builder, call)
            operands = [stored(builder, argument) for argument in call.args]
            kernel = _kernel(_described(name, call), operands)
            variable = builder.add_func(kernel, "grouped")
            return relax.call_tir(variable, relax.Tuple(operands), call.ty)

        return lower

    return {**rules, **{name: rule(name) for name in _FAMILIES}}


def _kernel(convolution: Convolution, operands: Sequence[relax.Expr]) -> tirx.PrimFunc:
    """The kernel as one block, and as a product where its loops are written."""
    axes = convolution.axes()
    taps, phases = (math.prod(getattr(axis, of) for axis in axes) for of in ("kernel", "stride"))
    has_holes = any(axis.stride > 1 and axis.dilation > 1 for axis in axes)
    is_small = taps <= _MOST_TAPS and phases <= _MOST_PHASES
    if not is_small or (has_holes and convolution.family == "data-gradient"):
        return _read_in_any_case(convolution.sums(operands, name="grouped"))
    # Where what follows is too long for a product's tail, it is scheduled as it is here.
    family = f"grouped-{convolution.family}"
    return _read_in_any_case(marked(convolution, family, operands, None))


def _read_in_any_case(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel without branches around the reads of a window, whose places are inside anyway."""

    def unbranched(node: ir.Call) -> ir.Expr:
        is_choice = str(node.op.name).endswith("if_then_else")
        return or_zero(node.args[0], node.args[1]) if is_choice else node

    return kernel.with_body(tvm_ffi.structural_map(kernel.body, (ir.Call, unbranched)))


def _described(name: str, call: relax.Call) -> Convolution:
    strides, dilations, pads = (pair(call.attrs[key]) for key in ("strides", "dilation", "padding"))
    groups = int(call.attrs["groups"])
    return Convolution(_FAMILIES[name], shapes_of(call), strides, dilations, pads, groups)
