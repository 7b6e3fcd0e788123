"""A training step returns its loss alone.

Until its calls have become direct calls of kernels, the step names the tensors that it updates in
its result, so that no pass takes an update for dead code. From here on calls have effects, and
the names would only be handed to the caller as so many aliases of its own tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.passes.contract import Pass


@dataclass(frozen=True)
class ReturnLoss(Pass):
    """Cuts the results of functions down to their first field.

    Attributes:
        functions: by name.
    """

    name: ClassVar[str] = "return-loss"
    functions: Sequence[str] = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions; they must return tuples."""
        rewritten = module.clone()
        for name in self.functions:
            rewritten.update_func(module.get_global_var(name), _cut_down(module[name]))
        return rewritten


def _cut_down(function: relax.Function) -> relax.Function:
    first = _fields(function)[0]
    return relax.Function(
        function.params,
        relax.BlockBuilder().normalize(relax.SeqExpr(function.body.blocks, first)),
        first.ty,
        function.is_pure,
        function.attrs,
    )


def _fields(function: relax.Function) -> list[relax.Expr]:
    """Fields of the result, which may be bound to a variable."""
    result = function.body.body
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(result, relax.Var) and binding.var.same_as(result):
                result = binding.value
    return list(result.fields)
