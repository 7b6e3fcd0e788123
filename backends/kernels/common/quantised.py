"""Right operands of products that are dequantised as they are read.

A product reads its operand in vectors along the columns in which it lies in memory, and most often
to pack it: what it reads of codes is a quarter or an eighth of the bytes, and a conversion, a
subtraction and a multiplication more for each vector that is packed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.common.operand import placeholder
from odtc.backends.kernels.common.places import Readable, rounded
from odtc.backends.kernels.common.vectors import interleave, splat
from odtc.core.ir.product_marks import READ_QUANTISED
from odtc.core.ir.relax_calls import is_call
from odtc.dialect.elements.dequantised import NIBBLES, READ, dequantised, place_of

# How many tensors a dequantised one is read from: codes, zero points and scales.
CODED = 3
# Elements of the longest vector, of float16.
_LONGEST = 32


@dataclass(frozen=True)
class Quantisation:
    """How a matrix is dequantised; see `Codes` of `odtc/dialect/elements/dequantised.py`.

    Attributes:
        stored: how each of its elements is.
        shape: of the matrix.
        blocks: elements in a row that have one scale and zero point, for each dimension.
    """

    stored: str
    shape: tuple[int, int]
    blocks: tuple[int, int]

    @classmethod
    def of(cls, stored: str, sizes: Sequence[int]) -> "Quantisation":
        """From the mark of a product."""
        rows, columns, *blocks = sizes
        return cls(stored, (rows, columns), (blocks[0], blocks[1]))

    @property
    def mark(self) -> list[str | int]:
        """Its value in the mark of a product."""
        return [self.stored, *self.shape, *self.blocks]

    @property
    def text(self) -> str:
        """It as text."""
        return (
            f"{self.stored} {'x'.join(map(str, self.shape))} by {'x'.join(map(str, self.blocks))}"
        )

    @property
    def unit(self) -> int:
        """Columns that are not torn apart: the longest vector, as far as it fills them."""
        return math.gcd(self.shape[1], _LONGEST)

    def read(self, operands: Sequence[Readable]) -> list[Readable]:
        """The two operands of a product, of which the second is given as `CODED` tensors."""
        *others, codes, zero, scale = operands
        return [*others, Quantised(codes, zero, scale, self)]


@dataclass(frozen=True)
class Quantised:
    """A matrix `(code - zero) * scale`, read by element or by vectors along its columns.

    Where vectors fill the columns, each begins at a multiple of its length.

    Attributes:
        codes: the tensor that is stored.
        zero, scale: of each block.
        quantisation: the rest.
    """

    codes: Readable
    zero: Readable
    scale: Readable
    quantisation: Quantisation

    @property
    def shape(self) -> Sequence[int]:
        """The shape as it is read."""
        return self.quantisation.shape

    @property
    def unit(self) -> int:
        """Columns that are not torn apart, where a product takes some of them at a time."""
        return self.quantisation.unit

    def __getitem__(self, at: Sequence[ir.Expr]) -> ir.Expr:
        row, column = (tirx.convert(each) for each in at)
        code = self._code(row, column)
        zero, scale = (self._number(each, row, column) for each in (self.zero, self.scale))
        return (code - zero) * scale

    def _code(self, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        lanes = column.ty.dtype.lanes
        if self.quantisation.stored != NIBBLES or not self._fills(lanes):
            return READ[self.quantisation.stored](self.codes, (row, column))
        pairs = tirx.convert(self.codes[(row, tirx.Ramp(column.base // 2, 1, lanes // 2))])
        low, high = pairs & _bytes(15, lanes // 2), pairs >> _bytes(4, lanes // 2)
        return rounded(interleave([low, high], lanes // 2), "float32")

    def _number(self, tensor: Readable, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        """The scale or zero point of an element, or of each of a vector."""
        lanes, block = column.ty.dtype.lanes, self.quantisation.blocks[1]
        if lanes > 1 and (int(tensor.shape[1]) == 1 or (block % lanes == 0 and self._fills(lanes))):
            column = column.base
        place = place_of(tensor.shape, self.quantisation.blocks, (row, column))
        return splat(rounded(tirx.convert(tensor[place]), "float32"), lanes)

    def _fills(self, lanes: int) -> bool:
        """Whether vectors are of so many elements, and fill the columns."""
        return lanes > 1 and self.shape[1] % lanes == 0


def _bytes(value: int, lanes: int) -> ir.Expr:
    return splat(tirx.const(value, "uint8"), lanes)


def quantised_operand(
    right: relax.Expr,
) -> tuple[Any, list[te.Tensor], dict[str, Any]]:
    """What a product reads as its right operand, its tensors, and marks of the product."""
    if not is_call(right, dequantised.name):
        tensor = placeholder(right, "right")
        return tensor, [tensor], {}
    codes = dequantised.read(right)
    quantisation = Quantisation.of(codes.stored, [*codes.shape, *codes.blocks])
    parts = zip(right.args, ("codes", "zero", "scale"), strict=True)
    tensors = [placeholder(each, name) for each, name in parts]
    (matrix,) = quantisation.read(tensors)
    return matrix, tensors, {READ_QUANTISED: quantisation.mark}
