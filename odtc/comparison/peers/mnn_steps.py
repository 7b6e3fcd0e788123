"""Steps of a model that MNN has converted: plain SGD on the CPU.

It needs numpy and MNN alone, so that it runs where nothing else is installed.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class MnnSteps:
    """Trains all weights of a classifier with SGD, without momentum.

    Args:
        path: of the model in MNN's format, written for training; its output are logits.
        pools: whether the average over the last two axes of its output are the logits.
        lr: learning rate.
        threads: of MNN, set for the whole process.

    Raises:
        ImportError: MNN is not installed.
    """

    def __init__(self, path: Path, *, pools: bool, lr: float, threads: int):
        names = ("MNN.expr", "MNN.nn", "MNN.optim")
        self._f, self._nn, optim = map(importlib.import_module, names)
        self._pools = pools
        # Without it the parameters silently stay as they are.
        self._f.lazy_eval(True)
        self._f.set_thread_number(threads)
        nodes = self._f.load_as_dict(str(path))
        inputs, outputs = self._f.get_inputs_and_outputs(nodes)
        ends = [list(each.values()) for each in (inputs, outputs)]
        self._module = self._nn.load_module(*ends, True)
        self._module.train(True)
        self._optimizer = optim.SGD(self._module, lr, 0.0, 0.0)

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step on the input and integer labels y [batch]; the loss before the update."""
        logits = self._logits(x)
        one_hot = np.eye(logits.shape[1], dtype=np.float32)[y]
        probabilities = self._f.softmax(logits, 1)
        loss = self._nn.loss.cross_entropy(probabilities, self._constant(one_hot))
        value = float(np.asarray(loss.read()).item())
        self._optimizer.step(loss)
        return value

    def _logits(self, x: Mapping[str, np.ndarray]) -> Any:
        """Logits [batch, classes]."""
        f = self._f
        (image,) = x.values()
        (result,) = self._module.forward([self._constant(image)])
        if self._pools:
            height, width = f.convert(result, f.NCHW).shape[2:]
            packed = f.convert(result, f.NC4HW4)
            result = f.avg_pool(packed, [height, width], [1, 1])
        return f.reshape(f.convert(result, f.NCHW), [len(image), -1])

    def _constant(self, array: np.ndarray) -> Any:
        return self._f.const(array, list(array.shape), self._f.NCHW)
