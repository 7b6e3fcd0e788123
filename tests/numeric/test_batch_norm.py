"""Batch normalisation trains by batch statistics, and its running statistics follow ONNX."""

import numpy as np
import torch

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.reference.pytorch import TorchTrainer
from tests.numeric.conftest import relative_error

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
