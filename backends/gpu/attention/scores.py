"""Scores of attention on a GPU: one at a time, with its mask."""

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.attention.scores import masked, unmasked
from odtc.backends.kernels.common.places import index


@dataclass(frozen=True)
class ScoreOf:
    """Where a score is, and what its mask makes of it.

    Attributes:
        heads: the attention.
        mask: the argument, if there is one.
        b: the sample.
        h: the head.
        query: its number; there may be fewer.
        key: its number; there may be fewer.
        is_cut: whether there may be fewer queries, and fewer keys.
    """

    heads: Heads
    mask: tirx.Buffer | None
    b: ir.Expr
    h: ir.Expr
    query: ir.Expr
    key: ir.Expr
    is_cut: tuple[bool, bool]

    def bias(self) -> ir.Expr | None:
        """The mask there, zero outside of it; emits its reading."""
        if self.mask is None:
            return None
        place = [
            at if size > 1 else index(0)
            for at, size in zip(
                (self.b, self.h, self.query, self.key), self.heads.mask, strict=True
            )
        ]
        ends = zip((self.query, self.key), self._ends, self.is_cut, strict=True)
        tests = [at < end for at, end, is_cut in ends if is_cut]
        value = tirx.BufferLoad(self.mask, place)
        if tests:
            value = tirx.if_then_else(tirx.all(*tests), value, _zero())
        return T.Bind(value)

    def of(self, product: ir.Expr, bias: ir.Expr | None) -> ir.Expr:
        """The score of a product of query and key."""
        return masked(self.heads, product * _number(self.heads.scale), bias)

    def slope(self, adjoint: ir.Expr, bias: ir.Expr | None) -> ir.Expr:
        """The adjoint of the product from that of the score."""
        return unmasked(self.heads, adjoint * _number(self.heads.scale), bias)

    def where_there(self, value: ir.Expr, other: ir.Expr) -> ir.Expr:
        """A value for a key, and another one where there is none."""
        return tirx.Select(self.key < self.heads.keys, value, other) if self.is_cut[1] else value

    @property
    def _ends(self) -> tuple[int, int]:
        return self.heads.queries, self.heads.keys


def _number(value: float) -> ir.Expr:
    return tirx.const(value, "float32")


def _zero() -> ir.Expr:
    return _number(0.0)
