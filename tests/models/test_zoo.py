"""The nine graphs of the ONNX model zoo train as PyTorch trains them, by an interpreter of ONNX."""

from itertools import islice
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.zoo import zoo_model, zoo_names
from benchmarks.reference.pytorch import TorchTrainer
from tests.models.parity import BOUND, MOMENTUM, STEPS, relative
from tests.numeric.test_parity import random_images, with_biases

BATCH = 2
LR = 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names())
def test_three_steps(name: str, tmp_path: Path) -> None:
    model = with_biases(zoo_model(name))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    reference = TorchTrainer(model, lr=LR, momentum=MOMENTUM)
    artifact = odtc.compile(path, batch=BATCH, optimizer=odtc.SGD(momentum=MOMENTUM))
    trainer = artifact.trainer(threads=2)
    for x, y in islice(random_images(BATCH), STEPS):
        expected = reference.step(x, y)
        assert abs(trainer.step(x, y, lr=LR) - expected) <= BOUND * abs(expected)
    found, expected = trainer.parameters(), reference.parameters()
    assert found.keys() == expected.keys()
    for key, value in found.items():
        assert relative(value, expected[key]) <= BOUND, key
