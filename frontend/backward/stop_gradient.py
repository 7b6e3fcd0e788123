"""Ends the backward pass where nothing is trained any more.

TVM's gradient pass walks back through every operator that the loss depends on, and fails at one
without a gradient even where only the input lies behind it. What depends on no trained parameter
is marked, so that such operators may stand there and cost nothing.
"""

from collections.abc import Iterable

from tvm import relax
from tvm.relax.op.grad import no_grad


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
