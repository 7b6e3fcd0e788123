"""Batch normalisation in training mode: batch statistics in, running statistics out.

ONNX models are exported in inference mode, and TVM's importer knows no other (`training_mode` is
ignored). A training step normalises by the batch; the running statistics follow as ONNX defines
it, with the biased variance of the batch: `running = momentum * running + (1 - momentum) * batch`.
"""

from collections.abc import Iterable

from tvm import relax

from odtc.dialect.images.batch_norm import batch_norm

INFERENCE = "relax.nn.batch_norm"


class TrainBatchNorm:
    """A replay rule that switches batch normalisations to training mode.

    Args:
        still: running statistics that do not move; their batch normalisations stay as they are.

    Attributes:
        updates: (running statistic, its new value) for each mean and variance that was met.
    """

    def __init__(self, still: Iterable[relax.Var] = ()) -> None:
        self._still = set(still)
        self.updates: list[tuple[relax.Var, relax.Expr]] = []

    def __call__(self, _: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the call in training mode, or None where the binding is something else."""
        call = binding.value
        if not (isinstance(call, relax.Call) and getattr(call.op, "name", "") == INFERENCE):
            return None
        if not self._still.isdisjoint(call.args[3:5]):
            return None
        for slot, statistic in enumerate(call.args[3:5], 1):
            self.updates.append((statistic, relax.TupleGetItem(binding.var, slot)))
        attrs = call.attrs
        epsilon, momentum = float(attrs.epsilon), float(attrs.momentum)
        return batch_norm(*call.args, epsilon=epsilon, momentum=momentum, activation="")
