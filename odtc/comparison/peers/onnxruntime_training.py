"""Trains an ONNX model with onnxruntime-training's on-device API: plain SGD on the CPU.

It is the second opinion beside PyTorch, and shares no code with it. The gradient builder refuses
some forms of a model; `_prepare` gives it others that compute the same.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference, version_converter

from odtc.comparison.peers.onnx_edits import default_parameters, end_in_logits, replace_entries
from odtc.comparison.peers.quiet import written_to

# The newest file format that onnxruntime 1.19 reads, and the opset that older models are taken to.
IR_VERSION = 10
OPSET = 15

# By odtc's losses: the name of onnxruntime's, and the axis of the classes, if any.
LOSSES = {
    "cross-entropy": ("CrossEntropyLoss", 1),
    "cross-entropy{axis=2}": ("CrossEntropyLoss", 2),
    "bce-with-logits": ("BCEWithLogitsLoss", None),
    "mse": ("MSELoss", None),
}

Rule = Callable[[onnx.GraphProto, onnx.NodeProto], list[onnx.NodeProto]]


def ort_trainer(
    model: onnx.ModelProto,
    batch: int,
    workdir: Path,
    *,
    lr: float,
    threads: int | None = None,
    loss: str = "cross-entropy",
) -> "OrtTrainer":
    """A trainer of a model, whose artifacts are written first; see both."""
    write_artifacts(model, batch, workdir, loss)
    return OrtTrainer(workdir, lr=lr, threads=threads)


class OrtTrainer:
    """Trains what odtc trains of a model by default, with SGD, without momentum.

    Batch normalisation is in training mode, but its running statistics stay as they were.

    Args:
        workdir: where `write_artifacts` wrote.
        lr: learning rate.
        threads: of onnxruntime; None leaves the choice to it.
    """

    def __init__(self, workdir: Path, *, lr: float, threads: int | None = None):
        _, api = import_training()
        self._state = api.CheckpointState.load_checkpoint(workdir / "checkpoint")
        options = _session_options(threads)
        self._module = api.Module(
            workdir / "training_model.onnx", self._state, device="cpu", session_options=options
        )
        self._optimizer = api.Optimizer(workdir / "optimizer_model.onnx", self._module)
        self._optimizer.set_learning_rate(lr)

    def step(self, x: np.ndarray | Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step on inputs x and labels y; returns the loss before the update."""
        inputs = [x] if isinstance(x, np.ndarray) else x.values()
        if np.issubdtype(y.dtype, np.integer):
            y = y.astype(np.int64).reshape(-1)
        loss = self._module(*inputs, y)
        self._optimizer.step()
        self._module.lazy_reset_grad()
        return float(loss)

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the trained weights, by initializer name."""
        return {name: p.data.copy() for name, p in self._state.parameters if p.requires_grad}


# --- the package and its artifacts --------------------------------------------------------------


def import_training() -> tuple[Any, Any]:
    """Onnxruntime's artifact generator and training API, without PyTorch where that is possible.

    `onnxruntime.training` imports PyTorch, for parts that are not used here. In a process that has
    not done so yet, stand-ins keep it out, so that memory can be measured; they are gone when this
    returns.
    """
    package = "onnxruntime.training"
    if not {"torch", package}.intersection(sys.modules):
        stand_ins: dict[str, Any] = {f"{package}.{n}": ModuleType(n) for n in ("amp", "optim")}
        stand_ins["torch"] = None
        sys.modules.update(stand_ins)
        try:
            importlib.import_module(package)
        finally:
            for name in stand_ins:
                del sys.modules[name]
    from onnxruntime.training import api, artifacts

    return artifacts, api


def _session_options(threads: int | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    return options


def write_artifacts(
    model: onnx.ModelProto, batch: int, folder: Path, loss: str = "cross-entropy"
) -> None:
    """Writes the training graph, the optimizer graph and the checkpoint.

    Args:
        model: an ONNX model; its first output is trained.
        batch: samples in a step, also where the model was exported with a fixed batch.
        folder: for them; created if it does not exist.
        loss: one of `LOSSES`.
    """
    artifacts, _ = import_training()
    name, axis = LOSSES[loss]
    parameters = default_parameters(model)
    model = _prepare(model, batch, axis)
    folder.mkdir(parents=True, exist_ok=True)
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    statistics = {name for node in norms for name in node.input[3:5]}
    floats = {t.name for t in model.graph.initializer if t.data_type == TensorProto.FLOAT}
    # The gradient builder logs to standard error and ignores log levels.
    with written_to(folder / "generate.log", 2):
        artifacts.generate_artifacts(
            model,
            requires_grad=sorted(floats & parameters),
            frozen_params=sorted(statistics),
            loss=artifacts.LossType[name],
            optimizer=artifacts.OptimType.SGD,
            artifact_directory=folder,
        )
    for file in folder.glob("*_model.onnx"):
        graph = onnx.load(file)
        graph.ir_version = min(graph.ir_version, IR_VERSION)
        onnx.save(graph, file)


# --- the model as the gradient builder takes it -------------------------------------------------


def _prepare(model: onnx.ModelProto, batch: int, axis: int | None) -> onnx.ModelProto:
    """A copy of a fixed batch, of opset 15 or newer; with an axis of classes it ends in logits."""
    prepared = onnx.ModelProto()
    prepared.CopyFrom(model)
    _only_feeds_as_inputs(prepared.graph)
    if prepared.graph.input[0].type.tensor_type.shape.dim[0].dim_value != batch:
        _follow_batch(prepared.graph)
    if axis is not None:
        end_in_logits(prepared.graph, axis)
    for value in prepared.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    prepared.ir_version = 8
    if prepared.opset_import[0].version < OPSET:
        prepared = version_converter.convert_version(prepared, OPSET)
    _apply_rules(prepared.graph)
    _drop_unread(prepared.graph)
    return shape_inference.infer_shapes(prepared, strict_mode=True)


def _only_feeds_as_inputs(graph: onnx.GraphProto) -> None:
    initializers = {tensor.name for tensor in graph.initializer}
    replace_entries(graph.input, [value for value in graph.input if value.name not in initializers])


def _drop_unread(graph: onnx.GraphProto) -> None:
    read = {name for node in graph.node for name in node.input}
    replace_entries(
        graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read]
    )


def _follow_batch(graph: onnx.GraphProto) -> None:
    """Reshapes of the data to the exported batch copy that dimension from their input instead."""
    exported = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[0] in constants:
            continue
        target = constants[node.input[1]]
        sizes = numpy_helper.to_array(target).copy()
        if sizes[0] == exported:
            sizes[0] = 0
            target.CopyFrom(numpy_helper.from_array(sizes, target.name))


def _apply_rules(graph: onnx.GraphProto) -> None:
    nodes = []
    for node in graph.node:
        rule = _RULES.get(node.op_type)
        nodes.extend(rule(graph, node) if rule else [node])
    for index, node in enumerate(nodes):
        node.name = f"{node.op_type}_{index}"
    replace_entries(graph.node, nodes)


def _dropout(_: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Turns it off, so that two trainers can be compared number by number."""
    return [helper.make_node("Identity", node.input[:1], node.output[:1])]


def _sum(_: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Sum of n terms as n - 1 Adds: Sum has no gradient."""
    first, *others = node.input
    partials = [f"{node.output[0]}_{index}" for index in range(len(others) - 1)]
    outputs = [*partials, node.output[0]]
    return [
        helper.make_node("Add", [left, right], [output])
        for left, right, output in zip([first, *partials], others, outputs, strict=True)
    ]


def _lrn(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """X / (bias + alpha * mean of x² over a window of channels)^beta: LRN has no gradient.

    An extra dimension in front of the channels makes the mean a three-dimensional average pooling.
    """
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    data, output, size = node.input[0], node.output[0], attrs["size"]
    constants = {
        "axis": np.array([1], np.int64),
        "alpha": np.float32(attrs.get("alpha", 1e-4)),
        "bias": np.float32(attrs.get("bias", 1.0)),
        "beta": np.float32(attrs.get("beta", 0.75)),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"{output}_{name}"))
    window = {"kernel_shape": [size, 1, 1], "pads": [(size - 1) // 2, 0, 0, size // 2, 0, 0]}

    def make(op_type: str, inputs: str, result: str, **attributes: Any) -> onnx.NodeProto:
        names = [data if name == "x" else f"{output}_{name}" for name in inputs.split()]
        return helper.make_node(op_type, names, [f"{output}_{result}"], **attributes)

    return [
        make("Mul", "x x", "square"),
        make("Unsqueeze", "square axis", "volume"),
        make("AveragePool", "volume", "pooled", count_include_pad=1, **window),
        make("Squeeze", "pooled axis", "mean"),
        make("Mul", "mean alpha", "scaled"),
        make("Add", "scaled bias", "base"),
        make("Pow", "base beta", "divisor"),
        helper.make_node("Div", [data, f"{output}_divisor"], [output]),
    ]


def _layer_norm(_: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Adds the statistics as outputs: the gradient reads them."""
    statistics = [f"{node.output[0]}_{part}" for part in ("mean", "inverse")]
    node.output.extend(statistics[len(node.output) - 1 :])
    return [node]


_RULES: dict[str, Rule] = {
    "Dropout": _dropout,
    "LayerNormalization": _layer_norm,
    "LRN": _lrn,
    "Sum": _sum,
}
