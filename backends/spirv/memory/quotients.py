"""Numbers of vectors, from indices of their elements.

    (k * 68 + y * 8 + x) / 4, where nothing is known of x
      ─→ k * 17 + y * 2 + (x >> 2)

A shift of the whole sum hides from a driver that vectors lie a constant apart: each would have a
place that is computed anew, in the innermost loop of a product.
"""

from collections.abc import Iterator, Sequence

from tvm import ir, tirx

from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.opcodes import Op
from odtc.backends.spirv.types import UINT32, ScalarKind


def quotient(kernel: KernelWriter, index: ir.Expr, by: int) -> tuple[int, int]:
    """The ids of an index over a power of two, rounded down, and of what is left of it."""
    kind = kernel.kind(index)
    terms = [(term, sign, _over(term, by)) for term, sign in _terms(index, 1)]
    rest = _sum(kernel, kind, None, [(term, sign) for term, sign, part in terms if part is None])
    shift = kernel.constant(UINT32, by.bit_length() - 1)
    whole, left = None, kernel.constant(kind, 0)
    if rest is not None:
        whole = kernel.compute(Op.SHIFT_RIGHT_ARITHMETIC, kind, rest, shift)
        left = kernel.compute(Op.BITWISE_AND, kind, rest, kernel.constant(kind, by - 1))
    parts = [(part, sign) for _, sign, part in terms if part is not None]
    whole = _sum(kernel, kind, whole, parts)
    return (kernel.constant(kind, 0) if whole is None else whole), left


def _sum(
    kernel: KernelWriter,
    kind: ScalarKind,
    before: int | None,
    terms: Sequence[tuple[ir.Expr, int]],
) -> int | None:
    """The id of a sum of terms, each with its sign, and of what is there before them."""
    total = before
    for term, sign in terms:
        value = kernel.scalar(term)
        if total is None and sign > 0:
            total = value
        else:
            op = Op.I_ADD if sign > 0 else Op.I_SUB
            total = kernel.constant(kind, 0) if total is None else total
            total = kernel.compute(op, kind, total, value)
    return total


def _terms(index: ir.Expr, sign: int) -> Iterator[tuple[ir.Expr, int]]:
    """The terms of a sum, each with its sign."""
    if isinstance(index, tirx.Add | tirx.Sub):
        yield from _terms(index.a, sign)
        yield from _terms(index.b, sign if isinstance(index, tirx.Add) else -sign)
    else:
        yield index, sign


def _over(term: ir.Expr, by: int) -> ir.Expr | None:
    """A term over a number that divides it; None if that is not seen."""
    if isinstance(term, tirx.IntImm):
        value = int(term.value)
        return None if value % by else tirx.IntImm(term.ty.dtype, value // by)
    if isinstance(term, tirx.Mul):
        for factor, other in ((term.b, term.a), (term.a, term.b)):
            if isinstance(factor, tirx.IntImm) and int(factor.value) % by == 0:
                return other * tirx.IntImm(factor.ty.dtype, int(factor.value) // by)
    return None
