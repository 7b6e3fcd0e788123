"""Every trainable operator: its gradient by finite differences and against PyTorch.

The finite differences are taken of ONNX's own reference implementation in double precision, which
shares no code with odtc or PyTorch.
"""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from odtc.frontend.operators.operator import Level
from odtc.frontend.operators.table import OPERATORS
from tests.numeric.conftest import node_model, relative_error

RNG = np.random.default_rng(3)


def weight(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE = (3, 4, 7, 6)
MATRIX = (3, 10)
# ONNX's reference implementation of LRN loops over the batch where it means the channels.
SQUARE = (4, 4, 5, 3)

CASES = {
    "Abs": node_model("Abs", MATRIX),
    "Add": node_model("Add", MATRIX, parameters={"w": weight(10)}),
    "Add-broadcast": node_model("Add", IMAGE, parameters={"w": weight(4, 1, 1)}),
    "AveragePool": node_model("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool-pad": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "AveragePool-counted": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "AveragePool-same": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"
    ),
    "Concat": node_model("Concat", IMAGE, parameters={"w": weight(3, 2, 7, 6)}, axis=1),
    "Conv": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3), "b": weight(5)}, pads=[1, 1, 1, 1]
    ),
    "Conv-stride": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3)}, pads=[0, 1, 1, 0], strides=[2, 2]
    ),
    "Conv-1x1": node_model("Conv", IMAGE, parameters={"w": weight(5, 4, 1, 1)}),
    "Conv-1x1-stride": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 1, 1)}, strides=[2, 2]
    ),
    "Conv-group": node_model(
        "Conv", IMAGE, parameters={"w": weight(6, 2, 3, 3)}, group=2, pads=[1, 1, 1, 1]
    ),
    "Conv-depthwise": node_model(
        "Conv", IMAGE, parameters={"w": weight(4, 1, 3, 3)}, group=4, strides=[2, 2]
    ),
    "Conv-same": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3)}, strides=[2, 2], auto_pad="SAME_LOWER"
    ),
    "Conv-valid": node_model("Conv", IMAGE, parameters={"w": weight(5, 4, 3, 2)}, auto_pad="VALID"),
    "Cos": node_model("Cos", MATRIX),
    "Div": node_model("Div", MATRIX, parameters={"w": weight(10) + 2}),
    "Dropout": node_model("Dropout", MATRIX),
    "Exp": node_model("Exp", MATRIX),
    "Flatten": node_model("Flatten", IMAGE, axis=1),
    "Gemm": node_model("Gemm", MATRIX, parameters={"w": weight(10, 6), "b": weight(6)}),
    "Gemm-transB": node_model(
        "Gemm",
        MATRIX,
        parameters={"w": weight(6, 10), "b": weight(6)},
        transB=1,
        alpha=0.5,
        beta=2.0,
    ),
    "Gemm-transA": node_model("Gemm", (4, 3), parameters={"w": weight(4, 6)}, transA=1),
    "GlobalAveragePool": node_model("GlobalAveragePool", IMAGE),
    "Identity": node_model("Identity", MATRIX),
    "LRN": node_model("LRN", SQUARE, size=3, alpha=0.5, beta=0.75, bias=1.5),
    "LRN-even": node_model("LRN", SQUARE, size=2, alpha=0.5),
    "Log": node_model("Log", MATRIX, before="Exp"),
    "LogSoftmax": node_model("LogSoftmax", (3, 2, 5), axis=-1),
    "MatMul": node_model("MatMul", MATRIX, parameters={"w": weight(10, 6)}),
    "MatMul-batched": node_model("MatMul", (3, 2, 5), parameters={"w": weight(5, 6)}),
    "MaxPool": node_model("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    "MaxPool-pad": node_model(
        "MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "MaxPool-ceil": node_model("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "Mul": node_model("Mul", MATRIX, parameters={"w": weight(10)}),
    "Neg": node_model("Neg", MATRIX),
    "Pow": node_model("Pow", MATRIX, constants={"e": np.float32(-0.75)}, before="Exp"),
    "ReduceMean": node_model("ReduceMean", IMAGE, axes=[2, 3], keepdims=0),
    "ReduceSum": node_model("ReduceSum", IMAGE, constants={"axes": ints(2)}, keepdims=1),
    "Relu": node_model("Relu", MATRIX),
    "Reshape": node_model("Reshape", IMAGE, constants={"s": ints(0, 2, -1)}),
    "Sigmoid": node_model("Sigmoid", MATRIX),
    "Sin": node_model("Sin", MATRIX),
    "Softmax": node_model("Softmax", (3, 2, 5), axis=-1),
    "Sqrt": node_model("Sqrt", MATRIX, before="Exp"),
    "Squeeze": node_model("Squeeze", (3, 1, 5), constants={"axes": ints(1)}),
    "Sub": node_model("Sub", MATRIX, parameters={"w": weight(10)}),
    "Sum": node_model("Sum", MATRIX, parameters={"w": weight(10), "v": weight(3, 10)}),
    "Sum-one": node_model("Sum", MATRIX),
    "Tanh": node_model("Tanh", MATRIX),
    "Transpose": node_model("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "Unsqueeze": node_model("Unsqueeze", MATRIX, constants={"axes": ints(1)}),
}
# Batch statistics make ONNX's inference-mode reference useless here; tests/numeric/test_batch_norm.
CHECKED_ELSEWHERE = {"BatchNormalization"}


def feeds(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = rng.standard_normal(shape).astype(np.float32)
    logits = ReferenceEvaluator(model).run(None, {"x": x})[0]
    return x, rng.integers(0, logits.shape[1], logits.shape[0])


def double_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model over float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    wide.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float64), tensor.name))
    return wide


def loss_of(model: onnx.ModelProto, weights: dict, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy by ONNX's reference implementation, with these weights."""
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    logits = ReferenceEvaluator(model).run(None, {"x": x.astype(np.float64)})[0]
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_probability[np.arange(len(y)), y].mean())


def test_every_trainable_operator_has_a_case() -> None:
    trainable = {name for name, item in OPERATORS.items() if item.level is Level.TRAINABLE}
    assert {name.split("-")[0] for name in CASES} | CHECKED_ELSEWHERE == trainable


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str, saved) -> None:
    model = CASES[name]
    x, y = feeds(model)
    artifact = odtc.compile(saved(model))
    trainer = artifact.trainer()
    before = trainer.parameters()
    loss = trainer.step(x, y, lr=1.0)
    gradients = {k: before[k] - v for k, v in trainer.parameters().items()}

    reference = TorchTrainer(model, lr=1.0)
    assert loss == pytest.approx(reference.step(x, y), rel=1e-5)
    torch_gradients = {k: before[k] - v for k, v in reference.parameters().items()}
    assert gradients.keys() == torch_gradients.keys()
    wide = double_precision(model)
    rng = np.random.default_rng(11)
    for key, gradient in gradients.items():
        assert relative_error(gradient, torch_gradients[key]) < 2e-5, key
        direction = rng.standard_normal(gradient.shape)
        step = 1e-5 / np.abs(direction).max()
        weights = {k: v.astype(np.float64) for k, v in before.items()}
        weights[key] = before[key] + step * direction
        above = loss_of(wide, weights, x, y)
        weights[key] = before[key] - step * direction
        slope = (above - loss_of(wide, weights, x, y)) / (2 * step)
        size = float(np.abs(gradient).sum()) or 1.0
        assert float((gradient * direction).sum()) == pytest.approx(
            slope, rel=1e-3, abs=1e-4 * size
        )


@pytest.mark.parametrize("name", ["Conv", "LRN", "MaxPool-ceil", "Gemm-transB", "Concat", "Sum"])
def test_values(name: str, saved) -> None:
    model = CASES[name]
    x, _ = feeds(model)
    expected = ReferenceEvaluator(double_precision(model)).run(None, {"x": x.astype(np.float64)})[0]
    assert relative_error(odtc.compile(saved(model)).trainer().evaluate(x), expected) < 1e-5


def test_relu_passes_no_gradient_at_zero(saved) -> None:
    """Where an image is blank and a bias is zero, whole regions are exactly zero."""
    model = node_model("Relu", MATRIX)
    trainer = odtc.compile(saved(model)).trainer()
    before = trainer.parameters()["p"]
    x = np.broadcast_to(-before, MATRIX).copy()
    x[:, ::2] += 1
    y = np.zeros(MATRIX[0], int)
    trainer.step(x, y, lr=1.0)
    gradient = before - trainer.parameters()["p"]
    assert not gradient[:, 1::2].any()
    assert gradient[:, ::2].all()
