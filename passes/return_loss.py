"""The training step returns its loss alone.

Until its calls have become direct calls of kernels, the step names the tensors that it updates in
its result, so that no pass takes an update for dead code. From here on calls have effects, and
the names would only be handed to the caller as so many aliases of its own tensors.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from odtc.passes.contract import Pass


@dataclass(frozen=True)
class ReturnLoss(Pass):
    """Cuts the result of a function down to its first field."""

    name: ClassVar[str] = "return-loss"
    function: str

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function named by `function`; it must return a tuple."""
        function = module[self.function]
        result = function.body.body
        fields = self._fields(function, result)
        rewritten = relax.Function(
            function.params,
            relax.BlockBuilder().normalize(relax.SeqExpr(function.body.blocks, fields[0])),
            fields[0].ty,
            function.is_pure,
            function.attrs,
        )
        module = module.clone()
        module.update_func(module.get_global_var(self.function), rewritten)
        return module

    @staticmethod
    def _fields(function: relax.Function, result: relax.Expr) -> list[relax.Expr]:
        """Fields of the result, which may be bound to a variable."""
        for block in function.body.blocks:
            for binding in block.bindings:
                if isinstance(result, relax.Var) and binding.var.same_as(result):
                    result = binding.value
        return list(result.fields)
