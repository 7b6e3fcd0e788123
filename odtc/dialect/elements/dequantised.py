"""Numbers of few bits as the floats that they stand for: `(code - zero) * scale`.

A kernel that copies its operand before it computes with it, as matrix products do, dequantises each
element as it copies it (`passes/graph/read_quantised.py`); what the elements become is never in
memory. Others compute this expression.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.core.coded import AS_IT_IS, BFLOAT16, NIBBLES
from odtc.dialect.attributes import Ints
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Codes:
    """What codes stand for.

    Attributes:
        stored: how each is: `AS_IT_IS`, `NIBBLES` or `BFLOAT16`.
        shape: of the result; the codes may have more columns, which nothing reads. Of nibbles, two
            columns are a byte, the first in its lower half.
        blocks: for each dimension, how many elements in a row have one scale and zero point; where
            these have one element only, it is for all.
    """

    stored: str
    shape: Ints
    blocks: Ints


# From the codes and an index to the element, as float32.
Read = Callable[[Any, Sequence[ir.Expr]], ir.Expr]


def _cast(value: ir.Expr, dtype: str) -> ir.Expr:
    """An element, or a vector of them, in another dtype."""
    return value.astype(_like(value, dtype))


def _like(value: ir.Expr, dtype: str) -> str:
    lanes = value.ty.dtype.lanes
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _as_it_is(codes: Any, at: Sequence[ir.Expr]) -> ir.Expr:
    return _cast(tirx.convert(codes[tuple(at)]), "float32")


def _nibble(codes: Any, at: Sequence[ir.Expr]) -> ir.Expr:
    *outer, column = at
    pair = _cast(tirx.convert(codes[(*outer, column // 2)]), "int32")
    shift = _cast(column % 2 * 4, "int32")
    return _cast((pair >> shift) & 15, "float32")


def _bfloat16(codes: Any, at: Sequence[ir.Expr]) -> ir.Expr:
    bits = _cast(tirx.convert(codes[tuple(at)]), "uint32") << 16
    return tirx.reinterpret(_like(bits, "float32"), bits)


READ: Mapping[str, Read] = {AS_IT_IS: _as_it_is, NIBBLES: _nibble, BFLOAT16: _bfloat16}


def place_of(
    shape: Sequence[Any], blocks: Sequence[int], at: Sequence[ir.Expr]
) -> tuple[ir.Expr, ...]:
    """Where the scale or zero point of an element is, in a tensor of a shape."""

    def along(size: int, block: int, place: ir.Expr) -> ir.Expr:
        if size == 1:
            return tirx.const(0, place.ty.dtype)
        return place // block if block > 1 else place

    return tuple(
        along(int(size), block, place) for size, block, place in zip(shape, blocks, at, strict=True)
    )


def _kernel(
    codes: te.Tensor, zero: te.Tensor, scale: te.Tensor, *, stored: str, shape: Ints, blocks: Ints
) -> te.Tensor:
    """Floats of codes, zero points and scales."""

    def element(*at: ir.Expr) -> ir.Expr:
        offset, factor = (each[place_of(each.shape, blocks, at)] for each in (zero, scale))
        return (READ[stored](codes, at) - offset.astype("float32")) * factor

    sizes = [tirx.const(size, "int64") for size in shape]
    return te.compute(sizes, element, "dequantised")


def _infer(call: relax.Call) -> relax.Type:
    return relax.TensorType(list(dequantised.read(call).shape), "float32")


# Of codes, zero points and scales (float32), each with as many dimensions.
dequantised: RelaxOperator[Codes] = RelaxOperator(
    name="odtc.dequantised",
    attributes=Codes,
    infer=_infer,
    kernel=_kernel,
    arity=3,
    gradient=None,
)
