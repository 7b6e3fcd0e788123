"""Ends the backward pass where nothing is trained any more.

TVM's gradient pass walks back through every operator that the loss depends on, and fails at one
without a gradient even where only the input lies behind it. What depends on no trained parameter
is marked, so that such operators may stand there and cost nothing.

A mark is the tensor itself. To passes it is one more operator between two others: they find no
transpose in front of a product any more, and no normalisation in front of an activation, and what
is frozen would cost more than what is trained. So marks are taken out once the gradients are there.
"""

from collections.abc import Collection, Iterable, Sequence

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.relax.op.grad import no_grad

from odtc.core.ir.relax_calls import is_call

_MARK = "relax.grad.no_grad"


class StopGradient:
    """A replay rule that marks the values behind which nothing is trained.

    Args:
        trained: the variables that want a gradient.
    """

    def __init__(self, trained: Iterable[relax.Var]) -> None:
        self._learned = set(trained)

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the marked value, or None where a trained parameter has a part in it."""
        if not isinstance(binding.var.ty, relax.TensorType):
            self._learn(binding)
            return None
        # Integers and booleans carry no gradient, whatever they are made from.
        if "float" in str(binding.var.ty.dtype) and self._learn(binding):
            return None
        return no_grad(builder.emit(binding.value))

    def _learn(self, binding: relax.Binding) -> bool:
        """Whether a trained parameter has a part in a value; then those who read it have it too."""
        if not self._learned.intersection(relax.analysis.free_vars(binding.value)):
            return False
        self._learned.add(binding.var)
        return True


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
