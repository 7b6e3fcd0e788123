"""Batch normalisation trains by batch statistics, and its running statistics follow ONNX."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.reference.pytorch import TorchTrainer
from tests.numeric.conftest import listing, relative_error

BATCH = 8


def batches(count: int, shape: tuple[int, ...], classes: int):
    rng = np.random.default_rng(2)
    for _ in range(count):
        x = rng.standard_normal(shape, dtype=np.float32) * 2 + 1
        yield x, rng.integers(0, classes, shape[0])


def test_twenty_steps_against_pytorch_in_double_precision(saved) -> None:
    model = bn_model(0)
    artifact = odtc.compile(saved(model), batch=BATCH, optimizer=odtc.SGD(momentum=0.9))
    trainer = artifact.trainer()
    reference = TorchTrainer(model, lr=0.02, momentum=0.9, dtype=torch.float64)
    (spec,) = artifact.manifest.inputs
    for x, y in batches(20, spec.shape, artifact.manifest.logits.shape[1]):
        assert abs(trainer.step(x, y, lr=0.02) / reference.step(x, y) - 1) < 1e-4
    expected = reference.parameters()
    for name, value in trainer.parameters().items():
        assert relative_error(value, expected[name]) < 1e-4, name


def test_running_statistics_are_those_of_onnx(saved) -> None:
    """`running = momentum * running + (1 - momentum) * batch`, with the biased variance."""
    model = bn_model(0)
    artifact = odtc.compile(saved(model), batch=BATCH)
    trainer = artifact.trainer()
    before = trainer.parameters()
    node = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    momentum = next(a.f for a in node.attribute if a.name == "momentum")
    (spec,) = artifact.manifest.inputs
    ((x, y),) = batches(1, spec.shape, artifact.manifest.logits.shape[1])
    trainer.step(x, y, lr=0.0)
    after = trainer.parameters()

    conv = next(n for n in model.graph.node if node.input[0] in n.output)
    assert conv.op_type == "Conv"
    pads = next(list(a.ints) for a in conv.attribute if a.name == "pads")
    bias = torch.tensor(before[conv.input[2]]) if len(conv.input) > 2 else None
    features = torch.nn.functional.conv2d(
        torch.tensor(x), torch.tensor(before[conv.input[1]]), bias, padding=pads[0]
    ).numpy()
    for name, statistic in zip(node.input[3:5], (np.mean, np.var), strict=True):
        expected = momentum * before[name] + (1 - momentum) * statistic(features, axis=(0, 2, 3))
        assert relative_error(after[name], expected) < 1e-5, name


def test_evaluate_uses_the_running_statistics(saved) -> None:
    model = bn_model(0)
    artifact = odtc.compile(saved(model), batch=BATCH)
    trainer = artifact.trainer()
    (spec,) = artifact.manifest.inputs
    ((x, _),) = batches(1, spec.shape, 2)
    reference = TorchTrainer(model, lr=0.0)
    assert relative_error(trainer.evaluate(x), reference.evaluate(x)) < 1e-5


def of_rank(shape: tuple[int, ...], training_mode: int) -> onnx.ModelProto:
    """`x * w -> normalisation -> flatten`, as exporters write it in training mode or not."""
    rng = np.random.default_rng(0)
    channels = shape[1]
    weights = {
        "w": rng.standard_normal((1, *shape[1:])),
        "gamma": rng.standard_normal(channels),
        "beta": rng.standard_normal(channels),
        "mean": rng.standard_normal(channels),
        "variance": rng.uniform(1, 2, channels),
    }
    outputs = ["n", "running_mean", "running_variance"] if training_mode else ["n"]
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node(
            "BatchNormalization",
            ["h", "gamma", "beta", "mean", "variance"],
            outputs,
            "norm",
            momentum=0.8,
            training_mode=training_mode,
        ),
        helper.make_node("Flatten", ["n"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return listing(model, weights)


@pytest.mark.parametrize("training_mode", [0, 1])
@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 7), (4, 3, 5, 6), (3, 4, 2, 3, 5)])
def test_ranks_and_modes(shape: tuple[int, ...], training_mode: int, saved) -> None:
    model = of_rank(shape, training_mode)
    artifact = odtc.compile(saved(model))
    noted = any("batch normalisations in inference mode" in n for n in artifact.manifest.notes)
    assert noted is not bool(training_mode)
    trainer = artifact.trainer()
    reference = TorchTrainer(model, lr=0.1, dtype=torch.float64)
    for x, y in batches(3, shape, artifact.manifest.logits.shape[1]):
        assert trainer.step(x, y, lr=0.1) == pytest.approx(reference.step(x, y), rel=1e-4)
    expected = reference.parameters()
    for name, value in trainer.parameters().items():
        assert relative_error(value, expected[name]) < 1e-4, name
    assert relative_error(trainer.evaluate(x), reference.evaluate(x)) < 1e-4


@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 5, 6)])
def test_gradient_by_finite_differences(shape: tuple[int, ...], saved) -> None:
    model = of_rank(shape, 1)
    trainer = odtc.compile(saved(model)).trainer()
    ((x, y),) = batches(1, shape, int(np.prod(shape[1:])))
    before = trainer.parameters()
    trainer.step(x, y, lr=1.0)
    after = trainer.parameters()

    def loss(weights: dict[str, np.ndarray]) -> float:
        h = x.astype(np.float64) * weights["w"]
        axes = (0, *range(2, h.ndim))
        centred = h - h.mean(axes, keepdims=True)
        normal = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
        along = (1, -1, *[1] * (h.ndim - 2))
        scaled = normal * weights["gamma"].reshape(along) + weights["beta"].reshape(along)
        logits = scaled.reshape(len(x), -1)
        peak = logits.max(1)
        total = peak + np.log(np.exp(logits - peak[:, None]).sum(1))
        return float((total - logits[np.arange(len(x)), y]).mean())

    for name in ("w", "gamma", "beta"):
        direction = np.random.default_rng(1).standard_normal(before[name].shape)
        ends = [loss(before | {name: before[name] + step * direction}) for step in (1e-6, -1e-6)]
        found = float(((before[name] - after[name]) * direction).sum())
        assert found == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-3, abs=1e-5), name
