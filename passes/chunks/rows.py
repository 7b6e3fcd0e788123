"""The rows of tensors: dimensions in front, flattened, along which a region of calls is cut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import relax
from tvm.relax import op as R  # noqa: N812


def shape_of(expression: relax.Expr) -> list[int] | None:
    """The shape of a tensor; None of what is none, or has no shape of numbers."""
    type_ = expression.ty
    if not isinstance(type_, relax.TensorType) or type_.shape is None:
        return None
    return [int(size) for size in type_.shape]


def row_rank(expression: relax.Expr, count: int) -> int | None:
    """How many of a tensor's dimensions, from the first on, are `count` rows together."""
    shape = shape_of(expression) or []
    ranks = (rank for rank in range(1, len(shape) + 1) if math.prod(shape[:rank]) == count)
    return next(ranks, None)


def row_size(expression: relax.Expr, count: int) -> int:
    """Elements of each of a tensor's `count` rows; 0 where it has none."""
    rank = row_rank(expression, count)
    return 0 if rank is None else math.prod((shape_of(expression) or [])[rank:])


@dataclass
class Chunk:
    """Some rows of all tensors of a region.

    Attributes:
        builder: its dataflow block is open.
        rows: how many there are in all.
        start: the first of the chunk.
        size: rows of the chunk.
        parts: of variables so far, each `[size, ...]`: those of the region, and what it reads.
    """

    builder: relax.BlockBuilder
    rows: int
    start: int
    size: int
    parts: dict[relax.Expr, relax.Expr] = field(default_factory=dict)

    def part(self, expression: relax.Expr) -> relax.Expr:
        """The rows of a tensor that are the chunk's: of the region, or sliced from all."""
        if expression not in self.parts:
            self.parts[expression] = self._sliced(expression)
        return self.parts[expression]

    def _sliced(self, expression: relax.Expr) -> relax.Var:
        shape, rank = shape_of(expression), row_rank(expression, self.rows)
        assert shape is not None
        assert rank is not None
        if rank > 1:
            flat = R.reshape(expression, [self.rows, *shape[rank:]])
            expression = self.builder.emit(flat)
        return self.builder.emit(
            R.strided_slice(expression, [0], [self.start], [self.start + self.size])
        )

    def all_of(self, expression: relax.Expr, inner: Sequence[int]) -> relax.Expr:
        """A tensor that is the same for all rows, with no more than the dimensions of one."""
        shape = shape_of(expression) or []
        if len(shape) <= len(inner):
            return expression
        return self.builder.emit(R.reshape(expression, shape[len(shape) - len(inner) :]))
