"""Every trainable operator: its values, and its gradient by finite differences and by PyTorch.

Values and finite differences are taken of ONNX's own reference implementation in double precision,
which shares no code with odtc or PyTorch. The models are in `cases`, one file per family.
"""

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from odtc.frontend.operators.operator import Level
from odtc.frontend.operators.table import OPERATORS
from tests.fast import fast_if
from tests.numeric.conftest import MATRIX, node_model, relative_error
from tests.numeric.exact import evaluate

CASES = {
    name: model
    for family in sorted(Path(__file__).with_name("cases").glob("*.py"))
    for name, model in import_module(f"tests.numeric.cases.{family.stem}").CASES.items()
}
# Batch statistics make ONNX's inference-mode reference useless here (test_batch_norm.py), and some
# operators it lacks (test_windows.py, test_indexing.py, test_recurrent.py, test_regions.py). Random
# numbers are in test_random.py, losses in test_training_losses.py.
CHECKED_ELSEWHERE = {
    *("BatchNormalization", "Dropout", "GRU", "GlobalLpPool", "LSTM", "MaxRoiPool", "RNN"),
    *("MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "Scatter"),
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
    *("RandomUniformLike", "SoftmaxCrossEntropyLoss"),
}
# Not a float among their inputs, or their values are known when the model is compiled.
WITHOUT_GRADIENT = {
    *("BlackmanWindow", "ConstantOfShape", "ConvInteger", "EyeLike", "HammingWindow"),
    *("HannWindow", "MatMulInteger", "MelWeightMatrix", "OneHot", "Range", "Shape", "Size"),
}


def feeds(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = rng.standard_normal(shape).astype(np.float32)
    logits = evaluate(model, x)
    return x, rng.integers(0, logits.shape[1], logits.shape[0])


def double_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model over float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    wide.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in wide.graph.node:
        for item in node.attribute:
            if (node.op_type, item.name, item.i) == ("Cast", "to", onnx.TensorProto.FLOAT):
                item.i = onnx.TensorProto.DOUBLE
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
    logits = evaluate(model, x.astype(np.float64))
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_probability[np.arange(len(y)), y].mean())


def test_every_trainable_operator_has_a_case() -> None:
    trainable = {name for name, item in OPERATORS.items() if item.level is Level.TRAINABLE}
    assert {
        name.split("-")[0] for name in CASES
    } | CHECKED_ELSEWHERE | WITHOUT_GRADIENT == trainable


# The samples end up among the classes: such a model is one of a whole batch.
WHOLE = {"Expand", "Transpose-default"}

# The first case of each operator.
FAST = {name.split("-")[0]: name for name in reversed(CASES)}.values()


@pytest.mark.parametrize("name", fast_if(lambda name: name in FAST, CASES))
def test_operator(name: str, saved) -> None:
    model = CASES[name]
    wide = double_precision(model)
    x, y = feeds(model)
    axes = {"x": None} if name in WHOLE else {}
    trainer = odtc.compile(saved(model), batch_axis=axes).trainer()
    expected = evaluate(wide, x.astype(np.float64))
    assert relative_error(trainer.evaluate(x), expected) < 1e-5
    before = trainer.parameters()
    loss = trainer.step(x, y, lr=1.0)
    gradients = {k: before[k] - v for k, v in trainer.parameters().items()}

    reference = TorchTrainer(model, lr=1.0)
    assert loss == pytest.approx(reference.step(x, y), rel=1e-5)
    torch_gradients = {k: before[k] - v for k, v in reference.parameters().items()}
    assert gradients.keys() == torch_gradients.keys()
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
