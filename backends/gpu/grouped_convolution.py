"""2-D convolutions in groups and their gradients on a GPU, as plain sums.

Most have groups of one channel, whose sums are short and share little.
"""

from collections.abc import Callable, Mapping

import tvm_ffi
from tvm import ir, relax, tirx

from odtc.backends.gpu.windows import or_zero
from odtc.backends.kernels.common.operand import stored
from odtc.backends.kernels.convolution.terms import Convolution, shapes_of
from odtc.backends.kernels.grouped.rules import CONV, TRANSPOSED, is_grouped
from odtc.backends.kernels.pool.planes import pair
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

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
            kernel = _read_in_any_case(_described(name, call).sums(operands, name="grouped"))
            variable = builder.add_func(kernel, "grouped")
            return relax.call_tir(variable, relax.Tuple(operands), call.ty)

        return lower

    return {**rules, **{name: rule(name) for name in _FAMILIES}}


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
