"""The references are right: by ONNX's own test cases, by onnxruntime, and by each other."""

import functools
import sys
import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from benchmarks.models.digits import bn_model, digits_data, digits_model
from benchmarks.models.zoo import zoo_model, zoo_names
from benchmarks.reference.operators import attributes, operators
from benchmarks.reference.pytorch import TorchTrainer
from odtc.comparison.peers.onnxruntime_training import ort_trainer

QUICK = "squeezenet"
ZOO = [
    name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in zoo_names()
]

# Operator types that ONNX has test cases for, and the input rank of those that take images only.
IMAGES = dict.fromkeys(["AveragePool", "Conv", "GlobalAveragePool", "LRN", "MaxPool"], 4)
ANY_RANK = dict.fromkeys(
    "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Celu Clip Concat Cos Cosh Div Elu Erf Exp "
    "Flatten Floor Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish Hardmax IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min Mish Mod Mul Neg PRelu Pow "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax "
    "Softplus Softsign Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Transpose "
    "Unsqueeze".split()
)
STANDARD: dict[str, int | None] = IMAGES | ANY_RANK


@functools.cache
def all_standard_cases() -> list:
    """ONNX's test cases of operators; each states its opset."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def standard_cases(op_type: str) -> list:
    """Those of one float32 operator that the references claim to run."""

    def claimed(case) -> bool:
        data = case.data_sets[0][0][0]
        rank = STANDARD[op_type]
        return (
            data.dtype == np.float32
            # PyTorch has no maximum of nothing.
            and data.size > 0
            and rank in (None, data.ndim)
            and not (op_type == "AveragePool" and "dilations" in case.name)
        )

    return [
        case
        for case in all_standard_cases()
        if [node.op_type for node in case.model.graph.node] == [op_type] and claimed(case)
    ]


@pytest.mark.parametrize("op_type", STANDARD)
def test_operators_pass_the_test_cases_of_onnx(op_type):
    cases = standard_cases(op_type)
    assert cases
    for case in cases:
        (node,) = case.model.graph.node
        inputs, outputs = case.data_sets[0]
        given = (torch.tensor(value) for value in inputs)
        arguments = [next(given) if name else None for name in node.input]
        result = operators(case.model)[op_type](attributes(node), *arguments)
        np.testing.assert_allclose(result, outputs[0], rtol=1e-3, atol=1e-6, err_msg=case.name)


def logits_by_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Inference; a model that closes with a softmax is read in front of it."""
    import onnxruntime

    output = model.graph.output[0].name
    (last,) = (node for node in model.graph.node if output in node.output)
    if last.op_type == "Softmax":
        output = last.input[0]
        model.graph.output.append(helper.make_empty_tensor_value_info(output))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run([output], {session.get_inputs()[0].name: x})[0].reshape(len(x), -1)


@pytest.mark.parametrize("name", ZOO)
def test_inference_of_a_zoo_model_agrees_with_onnxruntime(name):
    model = zoo_model(name)
    x = images(1)
    logits = TorchTrainer(model, lr=0.0).evaluate(x)
    expected = logits_by_onnxruntime(model, x)
    assert expected.std() > 1e-3
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()


def test_inference_uses_the_running_statistics():
    x = np.random.default_rng(0).standard_normal((3, 1, 8, 8), np.float32)
    logits = TorchTrainer(bn_model(), lr=0.0).evaluate(x)
    np.testing.assert_allclose(logits, logits_by_onnxruntime(bn_model(), x), rtol=1e-4, atol=1e-5)


def images(batch: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, *(shape or (3, 224, 224))), np.float32)


TRAINED = {
    "digits": (digits_model, images(8, 1, 8, 8), 0.01),
    "batch_norm": (bn_model, images(8, 1, 8, 8), 0.01),
    QUICK: (lambda: zoo_model(QUICK), images(2), 1e-4),
}


@pytest.mark.parametrize("name", TRAINED)
def test_the_references_agree_on_five_steps(name, tmp_path):
    make, x, lr = TRAINED[name]
    model, y = make(), np.arange(len(x))
    torch_trainer = TorchTrainer(model, lr=lr)
    ort = ort_trainer(model, len(x), tmp_path, lr=lr, threads=1)
    before = ort.parameters()
    losses = [(torch_trainer.step(x, y), ort.step(x, y)) for _ in range(5)]
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-4)
    assert losses[-1][0] < losses[0][0]
    ours, theirs = torch_trainer.parameters(), ort.parameters()
    errors, updates = [], []
    for key, value in theirs.items():
        assert np.abs(ours[key] - value).max() <= 1e-4 * np.abs(value).max() + 1e-6, key
        errors.append(np.linalg.norm(ours[key] - value))
        updates.append(np.linalg.norm(value - before[key]))
    # A weight moves little in five steps: what it moved by is the sharper test. A maximum that two
    # engines round differently sends the gradient elsewhere, so single elements may differ.
    assert min(updates) > 0
    assert np.linalg.norm(errors) <= 1e-3 * np.linalg.norm(updates)


def test_the_references_train_the_same_parameters(tmp_path):
    statistics = {f"{bn}.{part}" for bn in ("bn1", "bn2") for part in ("mean", "var")}
    trained = ort_trainer(bn_model(), 4, tmp_path, lr=0.1, threads=1).parameters().keys()
    assert TorchTrainer(bn_model(), lr=0.1).parameters().keys() == trained | statistics
    assert trained | statistics == {tensor.name for tensor in bn_model().graph.initializer}


def test_running_statistics_move_by_onnx_momentum_and_population_variance():
    model, x = bn_model(), images(4, 1, 8, 8)
    trainer = TorchTrainer(model, lr=0.0)
    before = trainer.parameters()
    trainer.step(x, np.arange(4))
    after = trainer.parameters()
    weight = torch.from_numpy(before["conv1.weight"])
    data = torch.nn.functional.conv2d(torch.from_numpy(x), weight, padding=1).numpy()
    for part, batch in (("mean", data.mean((0, 2, 3))), ("var", data.var((0, 2, 3)))):
        expected = 0.9 * before[f"bn1.{part}"] + 0.1 * batch
        np.testing.assert_allclose(after[f"bn1.{part}"], expected, rtol=1e-5)


def test_momentum_and_weight_decay_change_the_update():
    x, y = images(4, 1, 8, 8), np.arange(4)
    runs = [{}, {"momentum": 0.9}, {"weight_decay": 0.1}]
    trainers = [TorchTrainer(digits_model(), lr=0.01, **options) for options in runs]
    losses = [[trainer.step(x, y) for _ in range(3)][-1] for trainer in trainers]
    assert len(set(losses)) == 3


def test_float64_refines_float32():
    x, y = images(4, 1, 8, 8), np.arange(4)
    single, double = (
        TorchTrainer(digits_model(), lr=0.01, dtype=dtype)
        for dtype in (torch.float32, torch.float64)
    )
    assert single.step(x, y) == pytest.approx(double.step(x, y), rel=1e-6)
    assert double.parameters()["fc1.weight"].dtype == np.float64


def test_a_fixed_batch_is_followed_by_reshapes():
    assert TorchTrainer(zoo_model("shufflenet"), lr=0.0).evaluate(images(2)).shape == (2, 1000)


def test_the_stand_ins_for_pytorch_leave_no_trace(tmp_path):
    import torch

    ort_trainer(digits_model(), 2, tmp_path, lr=0.1, threads=1)
    assert sys.modules["torch"] is torch


def test_the_digits_model_learns():
    x_train, y_train, x_test, y_test = digits_data()
    trainer = TorchTrainer(digits_model(), lr=0.05, momentum=0.9, threads=1)
    rng = np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(len(x_train))
        for start in range(0, len(order) - 31, 32):
            rows = order[start : start + 32]
            trainer.step(x_train[rows], y_train[rows])
    assert (trainer.evaluate(x_test).argmax(1) == y_test).mean() >= 0.97
