"""One product for the gradient of a weight that is used again and again.

A weight that every step of a recurrent layer reads gets one product from each, and all of them are
added up: `a1' b1 + a2' b2 + ...`. That is one product of longer matrices, `[a1; a2; ...]' [b1; b2;
...]`, which reads and writes the large sum once and not at every step. Only float matrices are
merged, and only sums that nothing else reads a part of.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call

# Fewer products are left as they are; a kernel joins at most so many matrices.
FEWEST, GROUP = 4, 16

Pair = tuple[relax.Expr, relax.Expr]


class MergeProducts:
    """A replay rule that puts one product in the place of a sum of products.

    Args:
        function: the function that is replayed, of one block.
    """

    def __init__(self, function: relax.Function) -> None:
        (block,) = function.body.blocks
        self._values = {binding.var: binding.value for binding in block.bindings}
        self._uses = Counter(
            variable for value in self._values.values() for variable in _read(value)
        )
        self._uses.update(_read(function.body.body))
        inner = {
            argument
            for value in self._values.values()
            if is_call(value, "relax.add")
            for argument in value.args
            if self._is_part(argument)
        }
        self._roots = {
            variable
            for variable, value in self._values.items()
            if is_call(value, "relax.add") and variable not in inner
        }

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the merged product, or None where there is none."""
        if binding.var not in self._roots:
            return None
        leaves = list(self._leaves(binding.var, top=True))
        pairs = [pair for leaf in leaves if (pair := self._factors(leaf)) is not None]
        if len(pairs) < FEWEST:
            return None
        rest = [leaf for leaf in leaves if self._factors(leaf) is None]
        left, right = (_stack(builder, side) for side in zip(*pairs, strict=True))
        total = R.matmul(builder.emit(R.permute_dims(left)), right)
        for leaf in rest:
            total = R.add(builder.emit(total), leaf)
        return total

    def _is_part(self, expression: relax.Expr) -> bool:
        """Whether it is a sum that only one other value reads."""
        return self._uses[expression] == 1 and is_call(self._values.get(expression), "relax.add")

    def _leaves(self, variable: relax.Expr, top: bool = False) -> Iterator[relax.Expr]:
        """The terms of a sum, in order."""
        pending = [variable]
        while pending:
            each = pending.pop()
            if top or self._is_part(each):
                pending.extend(reversed(self._values[each].args))
                top = False
            else:
                yield each

    def _factors(self, leaf: relax.Expr) -> Pair | None:
        """`a` and `b` of a product `a' b` of matrices that nothing else reads."""
        value = self._values.get(leaf)
        if self._uses[leaf] != 1 or not is_call(value, "relax.matmul"):
            return None
        transposed, right = value.args
        inner = self._values.get(transposed)
        if not is_call(inner, "relax.permute_dims") or len(right.ty.shape) != 2:
            return None
        return inner.args[0], right


def _read(value: relax.Expr) -> list[relax.Var]:
    found: list[relax.Var] = []
    relax.analysis.post_order_visit(
        value, lambda each: found.append(each) if isinstance(each, relax.Var) else None
    )
    return found


def _stack(builder: relax.BlockBuilder, parts: Sequence[relax.Expr]) -> relax.Expr:
    """The matrices one below the other."""
    while len(parts) > 1:
        groups = [parts[at : at + GROUP] for at in range(0, len(parts), GROUP)]
        parts = [
            group[0] if len(group) == 1 else builder.emit(R.concat(list(group), 0))
            for group in groups
        ]
    return parts[0]
