"""Takes the marks of `stop_gradient.py` out of an adjoint, once its gradients are there.

A mark is the tensor itself. To passes it is one more operator between two others: they find no
transpose in front of a product any more, and no normalisation in front of an activation. What is
frozen would cost more than what is trained.
"""

from collections.abc import Collection, Iterable, Sequence

import tvm
import tvm_ffi
from tvm import ir, relax

from odtc.core.ir.relax_calls import is_call

_MARK = "relax.grad.no_grad"


def unmarked(module: tvm.IRModule, name: str, trained: Collection[int]) -> tvm.IRModule:
    """The module with a function that has no marks on what nothing trained has a part in.

    Other marks stay: they say that the derivative of a loss is no value of the forward pass.

    Args:
        module: holds the function.
        name: of the function, which has one block.
        trained: places of its arguments that are trained.
    """
    function = module[name]
    (block,) = function.body.blocks
    marks = _marks(block.bindings, [function.params[place] for place in trained])
    one = _united(marks)
    kept = [binding for binding in block.bindings if binding.var not in marks]
    without = relax.Function(
        function.params,
        relax.SeqExpr([relax.DataflowBlock(kept)], function.body.body),
        function.ret_ty,
        function.is_pure,
        function.attrs,
    )
    rewritten = module.clone()
    rewritten[name] = tvm_ffi.structural_map(without, (ir.Var, lambda var: one.get(var, var)))
    return rewritten


def _marks(
    bindings: Sequence[relax.Binding], trained: Iterable[relax.Var]
) -> dict[relax.Var, relax.Var]:
    """The marks on what depends on no trained argument, each with what it marks."""
    learned, marks = set(trained), {}
    for binding in bindings:
        if not learned.isdisjoint(relax.analysis.free_vars(binding.value)):
            learned.add(binding.var)
        elif is_call(binding.value, _MARK) and isinstance(binding.value.args[0], relax.Var):
            marks[binding.var] = binding.value.args[0]
    return marks


def _united(marks: dict[relax.Var, relax.Var]) -> dict[relax.Var, relax.Var]:
    """For each variable that is one tensor with others, the one that stays.

    That is the last mark, whose name is the tensor's own; or an argument that is marked.
    """
    roots: dict[relax.Var, relax.Var] = {}
    for mark, marked in marks.items():
        roots[mark] = roots.get(marked, marked)
    named = {root: mark for mark, root in roots.items() if isinstance(root, relax.DataflowVar)}
    return {mark: named.get(root, root) for mark, root in roots.items()} | named
