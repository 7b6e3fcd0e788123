"""The gradient of padding by a constant."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.rule import Rule


def pad(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """Pads a tensor with a frame."""
    widths = [int(width) for width in call.attrs.pad_width]
    sizes = [int(size) for size in call.args[0].ty.shape]
    begin = widths[::2]
    return [
        R.strided_slice(
            grad,
            axes=list(range(len(sizes))),
            begin=begin,
            end=[first + size for first, size in zip(begin, sizes, strict=True)],
        )
    ]


RULES: dict[str, Rule] = {"relax.nn.pad": pad}
