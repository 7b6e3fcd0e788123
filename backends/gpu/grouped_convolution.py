"""2-D convolutions in groups and their gradients on a GPU, as plain sums.

Most have groups of one channel, whose sums are short and share little.
"""

from collections.abc import Callable, Mapping, Sequence

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.convolution import inside, load, positions
from odtc.backends.kernels.grid import Axis
from odtc.backends.kernels.grouped_convolution import CONV, TRANSPOSED, is_grouped
from odtc.backends.kernels.operand import placeholder, shape_of, stored
from odtc.backends.kernels.planes import pair
from odtc.core.kernel_marks import GROUPED_WEIGHT_GRADIENT

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
# The product at an element of the result, given both operands, the axes, channels of a group of
# the image and of the output, that element and the terms.
Term = Callable[
    [Sequence[te.Tensor], Sequence[Axis], tuple[int, int], Sequence[ir.Expr], Sequence[ir.Expr]],
    ir.Expr,
]


def grouped_rules(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Legalisation rules by operator: `rules`, with those for groups in front of them."""

    def rule(name: str) -> Rule:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            if not is_grouped(call):
                otherwise = rules.get(name) or call.op.get_attr("FLegalize")
                return otherwise(builder, call)
            operands = [stored(builder, argument) for argument in call.args]
            variable = builder.add_func(_kernel(name, call, operands), "grouped")
            return relax.call_tir(variable, relax.Tuple(operands), call.ty)

        return lower

    return {**rules, **{name: rule(name) for name in _TERMS}}


def _forward(
    operands: Sequence[te.Tensor],
    axes: Sequence[Axis],
    widths: tuple[int, int],
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    (x, w), (channels, rows), (n, m, *o), (c, *t) = operands, widths, at, k
    source = m // rows * channels + c
    return inside(x, n, source, positions(list(axes), o, t)) * load(w, m, c, *t)


def _data_gradient(
    operands: Sequence[te.Tensor],
    axes: Sequence[Axis],
    widths: tuple[int, int],
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    (dy, w), (channels, rows), (n, c, *i), (m, *t) = operands, widths, at, k
    source = c // channels * rows + m
    steps = [a.pad + x - tap * a.dilation for a, x, tap in zip(axes, i, t, strict=True)]
    hits = [tirx.floormod(step, a.stride).equal(0) for a, step in zip(axes, steps, strict=True)]
    place = [tirx.floordiv(step, a.stride) for a, step in zip(axes, steps, strict=True)]
    return inside(dy, n, source, place, hits) * load(w, source, c % channels, *t)


def _weight_gradient(
    operands: Sequence[te.Tensor],
    axes: Sequence[Axis],
    widths: tuple[int, int],
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    (x, dy), (channels, rows), (m, c, *t), (n, *o) = operands, widths, at, k
    source = m // rows * channels + c
    return inside(x, n, source, positions(list(axes), o, t)) * load(dy, n, m, *o)


# Operator -> the term, and where image, weight and output are among operands and result.
_TERMS: dict[str, tuple[Term, tuple[int, int, int]]] = {
    CONV: (_forward, (0, 1, 2)),
    TRANSPOSED: (_data_gradient, (2, 1, 0)),
    GROUPED_WEIGHT_GRADIENT: (_weight_gradient, (0, 2, 1)),
}


def _kernel(name: str, call: relax.Call, operands: Sequence[relax.Expr]) -> tirx.PrimFunc:
    term, roles = _TERMS[name]
    shapes = [*(shape_of(argument) for argument in call.args), shape_of(call)]
    image, weight, out = (shapes[role] for role in roles)
    groups = int(call.attrs["groups"])
    steps = (pair(call.attrs[key]) for key in ("strides", "dilation", "padding"))
    axes = [Axis(*numbers) for numbers in zip(image[2:], weight[2:], *steps, out[2:], strict=True)]
    widths = image[1] // groups, out[1] // groups
    sums = {
        CONV: [widths[0], *weight[2:]],
        TRANSPOSED: [widths[1], *weight[2:]],
        GROUPED_WEIGHT_GRADIENT: [out[0], *out[2:]],
    }[name]
    tensors = [placeholder(operand, f"arg{i}") for i, operand in enumerate(operands)]
    terms = [te.reduce_axis((0, tirx.const(size, "int64")), f"k{i}") for i, size in enumerate(sums)]
    product = te.compute(
        [tirx.const(size, "int64") for size in shapes[-1]],
        lambda *at: te.sum(term(tensors, axes, widths, at, terms), axis=terms),
        name="grouped",
    )
    return te.create_prim_func([*tensors, product]).without_attr("global_symbol")
