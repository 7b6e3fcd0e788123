"""Batch normalisation in training mode: batch statistics in, running statistics out.

ONNX models are exported in inference mode, and TVM's importer knows no other (`training_mode` is
ignored). A training step normalises by the batch; the running statistics follow as ONNX defines
it, with the biased variance of the batch: `running = momentum * running + (1 - momentum) * batch`.
Of a file that was made of a PyTorch module they follow PyTorch, whose running variance takes the
unbiased one: n / (n - 1) of it. The output, and so losses and gradients, are the same.
"""

import math
from collections.abc import Iterable

from tvm import relax

from odtc.dialect.images.batch_norm import batch_norm

INFERENCE = "relax.nn.batch_norm"


class TrainBatchNorm:
    """A replay rule that switches batch normalisations to training mode.

    Args:
        still: running statistics that do not move; their batch normalisations stay as they are.
        unbiased: whether running variances follow PyTorch.

    Attributes:
        updates: (running statistic, its new value) for each mean and variance that was met.
    """

    def __init__(self, still: Iterable[relax.Var] = (), *, unbiased: bool = False) -> None:
        self._still, self._unbiased = set(still), unbiased
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
        said = {"epsilon": epsilon, "momentum": momentum, "activation": ""}
        values = _values_of_a_channel(call.args[0])
        # Of one value there is no variance: PyTorch refuses to train on it.
        if self._unbiased and values > 1:
            said["correction"] = values / (values - 1)
        return batch_norm(*call.args, **said)


def _values_of_a_channel(data: relax.Expr) -> int:
    samples, _, *plane = (int(size) for size in data.ty.shape)
    return samples * math.prod(plane)
