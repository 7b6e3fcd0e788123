"""A reshape of a reshape is one of the tensor itself.

A reshape alone is another view of the same memory. But FuseOps makes one kernel of several that
follow each other, and that is no view: it copies.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.core.ir.relax_calls import is_call
from odtc.passes.contract import Pass

_RESHAPE = "relax.reshape"


@mutator
class _Join(PyExprMutator):
    """Reads through the reshapes of what is reshaped."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not is_call(call, _RESHAPE):
            return call
        source, shape = call.args
        while isinstance(source, relax.Var) and is_call(
            inner := self.lookup_binding(source), _RESHAPE
        ):
            source = inner.args[0]
        return relax.op.reshape(source, shape)


@dataclass(frozen=True)
class JoinReshapes(Pass):
    """Makes one of reshapes that follow each other; what is dead then goes."""

    name: ClassVar[str] = "join-reshapes"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites every Relax function of the module."""
        rewriter = _Join(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
        return relax.transform.DeadCodeElimination()(rewriter.builder_.get())
