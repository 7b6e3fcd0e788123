"""Trains an ONNX model with MNN's Python wheel: plain SGD on the CPU.

MNN converts the model and keeps what training needs. Of what it gets wrong, two things are mended
here: it has no gradient of Dropout, and none of a GlobalAveragePool that it has converted: the
parameters in front of that stay as they are, and the step is fast. So a pooling that closes the
model is left out and done in MNN's own operators. Its gradient of batch normalisation is not
PyTorch's either; as with all that remains, only the losses show it.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from odtc.comparison.peers.onnx_edits import without_dropout
from odtc.comparison.peers.quiet import written_to

# Nodes that leave the data of logits [batch, classes, 1, 1] in place.
_FLAT = ("Flatten", "Reshape", "Squeeze")
_POOL = "GlobalAveragePool"


class MnnTrainer:
    """Trains all weights of a classifier with SGD, without momentum.

    Args:
        model: an ONNX model of one input, of a fixed batch; its output are logits.
        workdir: an existing folder for the converted model.
        lr: learning rate.
        threads: of MNN, set for the whole process.

    Raises:
        ValueError: the model has a form that MNN cannot train.
        ImportError: MNN is not installed.
    """

    def __init__(self, model: onnx.ModelProto, workdir: Path, *, lr: float, threads: int):
        # It prints the CPU's instructions, and the stages of the conversion.
        with written_to(workdir / "mnn.log", 1, 2):
            names = ("MNN.expr", "MNN.nn", "MNN.optim")
            self._f, self._nn, optim = map(importlib.import_module, names)
            body, self._pools = _body(model)
            converted = _convert(body, workdir)
            # Without it the parameters silently stay as they are.
            self._f.lazy_eval(True)
            self._f.set_thread_number(threads)
            nodes = self._f.load_as_dict(str(converted))
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


def _body(model: onnx.ModelProto) -> tuple[onnx.ModelProto, bool]:
    """A copy without Dropout and without a closing pooling, and whether it had one."""
    body = without_dropout(model)
    nodes = list(body.graph.node)
    pools = [index for index, node in enumerate(nodes) if node.op_type == _POOL]
    if pools:
        closing = pools[0]
        if any(node.op_type not in _FLAT for node in _behind(nodes, closing)):
            raise ValueError(f"MNN has no gradient of a {_POOL} inside of a model")
        logits = helper.make_tensor_value_info(
            nodes[closing].input[0], onnx.TensorProto.FLOAT, None
        )
        body.graph.output[0].CopyFrom(logits)
        nodes = nodes[:closing]
    del body.graph.node[:]
    body.graph.node.extend(nodes)
    return body, bool(pools)


def _behind(nodes: list[onnx.NodeProto], start: int) -> list[onnx.NodeProto]:
    """The nodes that depend on a node."""
    known, found = set(nodes[start].output), []
    for node in nodes[start + 1 :]:
        if known.intersection(node.input):
            known.update(node.output)
            found.append(node)
    return found


def _convert(model: onnx.ModelProto, workdir: Path) -> Path:
    """Writes the model in MNN's format."""
    source, converted = workdir / "mnn.onnx", workdir / "model.mnn"
    onnx.save(model, source)
    # Not the wheel's script of that name, which installs another package.
    convert = importlib.import_module("_tools").mnnconvert
    files = ["--modelFile", str(source), "--MNNModel", str(converted)]
    convert(["mnnconvert", "-f", "ONNX", *files, "--forTraining", "--bizCode", "odtc"])
    return converted
