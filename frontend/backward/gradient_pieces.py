"""The gradient of a large matrix, some rows at a time.

The weight of a layer that joins all pixels may be most of a model, and its gradient, as large, most
of what a step holds. It is a product of which each row can be computed by itself, so that the
update of some rows needs no other row: the gradient exists in pieces, one at a time.
"""

from collections.abc import Iterator

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.core.specs import Block

# Bytes of a piece, at most, where it can be. A product of fewer rows is no slower then, as what it
# reads again is much less.
_PIECE = 32 << 20
# Each piece has an update kernel of its own.
_MOST_PIECES = 16


def row_blocks(shape: tuple[int, ...], itemsize: int = 4) -> list[Block]:
    """The blocks of rows that a matrix is updated by; one for a small one.

    They are equal where a number of blocks that is large enough divides the rows: then they share
    the kernel of their product. Otherwise the last one is shorter.
    """
    rows, size = shape[0], shape[0] * shape[1] * itemsize
    fewest = min(-(-size // _PIECE), _MOST_PIECES, rows)
    count = next((n for n in range(fewest, _MOST_PIECES + 1) if rows % n == 0), fewest)
    each = -(-rows // count)
    return [Block(0, start, min(each, rows - start)) for start in range(0, rows, each)]


def pieces(builder: relax.BlockBuilder, gradient: relax.Expr) -> Iterator[tuple[Block, relax.Expr]]:
    """The blocks of a gradient, with the gradient of each; nothing where it is none of these.

    Args:
        builder: where the gradient was emitted; its product is left without a reader.
        gradient: a variable.
    """
    product = _call(builder, gradient, "relax.matmul")
    if product is None or len(gradient.ty.shape) != 2:
        return
    transposed = _call(builder, product.args[0], "relax.permute_dims")
    if transposed is None:
        return
    blocks = row_blocks(tuple(int(size) for size in gradient.ty.shape))
    if len(blocks) == 1:
        return
    for block in blocks:
        ends = [block.start], [block.start + block.size]
        columns = builder.emit(R.strided_slice(transposed.args[0], [1], *ends))
        rows = builder.emit(R.permute_dims(columns))
        yield block, builder.emit(R.matmul(rows, product.args[1]))


def _call(builder: relax.BlockBuilder, variable: relax.Expr, operator: str) -> relax.Call | None:
    """The call that a variable is bound to, if it is of that operator."""
    value = builder.lookup_binding(variable) if isinstance(variable, relax.Var) else None
    return value if is_call(value, operator) else None
