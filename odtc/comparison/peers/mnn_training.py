"""Trains an ONNX model with MNN's Python wheel: plain SGD on the CPU.

MNN converts the model and keeps what training needs. Of what it gets wrong, two things are mended
here: it has no gradient of Dropout, and none of a GlobalAveragePool that it has converted: the
parameters in front of that stay as they are, and the step is fast. So a pooling that closes the
model is left out and done in MNN's own operators. Its gradient of batch normalisation is not
PyTorch's either; as with all that remains, only the losses show it.
"""

import importlib
from pathlib import Path

import onnx
from onnx import helper

from odtc.comparison.peers.mnn_steps import MnnSteps
from odtc.comparison.peers.onnx_edits import without_dropout
from odtc.comparison.peers.quiet import written_to

# Nodes that leave the data of logits [batch, classes, 1, 1] in place.
_FLAT = ("Flatten", "Reshape", "Squeeze")
_POOL = "GlobalAveragePool"


class MnnTrainer(MnnSteps):
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
            path, pools = converted(model, workdir)
            super().__init__(path, pools=pools, lr=lr, threads=threads)


def converted(model: onnx.ModelProto, workdir: Path) -> tuple[Path, bool]:
    """Writes the model in MNN's format; its file, and whether a pooling is left out that closes it.

    Raises:
        ValueError: the model has a form that MNN cannot train.
        ImportError: MNN is not installed.
    """
    body, pools = _body(model)
    return _convert(body, workdir), pools


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
