"""Attention as products and a softmax, for targets that have no kernel for it.

The backward computes the probabilities again from each query's largest score and sum, as a kernel
would: between forward and backward no matrix of queries times keys waits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.attributes import read_as
from odtc.dialect.sequences.attention import Scores, attention, attention_backward
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding

_HEADS_OUTSIDE, _TRANSPOSED = [0, 2, 1, 3], [0, 1, 3, 2]


@dataclass(frozen=True)
class SpellOutAttention(Pass):
    """Replaces the operators of attention in all functions, which are one dataflow block each.

    Attributes:
        keeps: which of them have kernels, and stay as they are.
    """

    name: ClassVar[str] = "spell-out-attention"
    keeps: Callable[[relax.Call], bool] = field(default=lambda _: False, repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions that have attention."""
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function) and _has_attention(function):
                with rebuilding(module, variable.name_hint) as builder:
                    for binding in bindings_of(function):
                        spell_out = _FORMS.get(operator_of(binding.value))
                        value = binding.value
                        if spell_out and not self.keeps(value):
                            value = spell_out(builder, value)
                        bind(builder, binding.var, value)
                module = builder.finalize()
        return module


def _has_attention(function: relax.Function) -> bool:
    return any(operator_of(binding.value) in _FORMS for binding in bindings_of(function))


class _Attention:
    """The operands of an attention with heads outside of the steps, and its scores."""

    def __init__(
        self, builder: relax.BlockBuilder, call: relax.Call, operands: list[relax.Expr]
    ) -> None:
        self._builder, self._said = builder, read_as(Scores, call)
        self._inner = self._said.inner
        q, k, v, *mask = operands
        self.q, self.k, self.v = (self.outside(each, at) for at, each in enumerate((q, k, v)))
        self._mask = mask[0] if mask else None

    def emit(self, value: relax.Expr) -> relax.Var:
        return self._builder.emit(value)

    def outside(self, tensor: relax.Expr, role: int) -> relax.Expr:
        """A tensor with heads in front of the steps; roles are those of the attribute `inner`."""
        return self.emit(R.permute_dims(tensor, _HEADS_OUTSIDE)) if self._inner[role] else tensor

    inside = outside  # the permutation is its own inverse

    def product(self, left: relax.Expr, right: relax.Expr, *transposed: str) -> relax.Var:
        """A product of all heads, with the operands named `left` or `right` transposed."""
        operands = {"left": left, "right": right}
        for name in transposed:
            operands[name] = self.emit(R.permute_dims(operands[name], _TRANSPOSED))
        return self.emit(R.matmul(operands["left"], operands["right"]))

    def scaled(self, tensor: relax.Expr) -> relax.Var:
        return self.emit(R.multiply(tensor, relax.const(np.float32(self._said.scale))))

    def scores(self) -> relax.Var:
        found = self.scaled(self.product(self.q, self.k, "right"))
        if self._mask is None:
            return found
        if self._said.replaces:
            return self.emit(R.where(self._is_replaced(), self._mask, found))
        return self.emit(R.add(found, self._mask))

    def powers(self, scores: relax.Expr, top: relax.Expr) -> relax.Var:
        """Of the scores less each query's largest; zeros where a query has none."""
        powers = self.emit(R.exp(self.emit(R.subtract(scores, self.column(top)))))
        if self._said.safe:
            powers = self.emit(R.where(self.emit(R.isnan(powers)), _zero(), powers))
        return powers

    def unreplaced(self, adjoint: relax.Expr) -> relax.Expr:
        """The adjoint of the scores, without those that the mask stood in place of."""
        if self._mask is None or not self._said.replaces:
            return adjoint
        return self.emit(R.where(self._is_replaced(), _zero(), adjoint))

    def column(self, numbers: relax.Expr) -> relax.Var:
        """Numbers of queries, for all keys."""
        return self.emit(R.expand_dims(numbers, -1))

    def _is_replaced(self) -> relax.Var:
        return self.emit(R.not_equal(self._mask, _zero()))


def _forward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    of = _Attention(builder, call, list(call.args))
    scores = of.scores()
    top = of.emit(R.max(scores, -1))
    powers = of.powers(scores, top)
    total = of.emit(R.sum(powers, -1))
    share = of.emit(R.divide(relax.const(np.float32(1)), total))
    if attention_backward.read(call).safe:
        share = of.emit(R.where(of.emit(R.equal(total, _zero())), _zero(), share))
    mean = of.product(of.emit(R.multiply(powers, of.column(share))), of.v)
    return relax.Tuple([of.inside(mean, 3), top, share])


def _backward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    dy, q, k, v, _, top, share, *mask = call.args
    of = _Attention(builder, call, [q, k, v, *mask])
    dy = of.outside(dy, 3)
    chances = of.emit(R.multiply(of.powers(of.scores(), top), of.column(share)))
    slope = of.product(dy, of.v, "right")
    level = of.emit(R.sum(of.emit(R.multiply(slope, chances)), -1, keepdims=True))
    adjoint = of.emit(R.multiply(chances, of.emit(R.subtract(slope, level))))
    adjoint = of.scaled(of.unreplaced(adjoint))
    found = (
        of.product(adjoint, of.k),
        of.product(adjoint, of.q, "left"),
        of.product(chances, dy, "left"),
    )
    return relax.Tuple([of.inside(each, role) for role, each in enumerate(found)])


def _zero() -> relax.Expr:
    return relax.const(np.float32(0))


_FORMS: dict[str | None, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]] = {
    attention.name: _forward,
    attention_backward.name: _backward,
}
