"""The nine graphs of the ONNX model zoo train as PyTorch trains them, by an interpreter of ONNX."""

from itertools import islice
from pathlib import Path

import onnx
import pytest
import torch

import odtc
from benchmarks.models.zoo import zoo_model, zoo_names
from benchmarks.reference.pytorch import TorchTrainer
from tests.models.parity import BOUND, MOMENTUM, STEPS, check_tensors
from tests.numeric.test_parity import random_images, with_biases

BATCH = 2
# Two images of noise: with a larger one the loss jumps, and magnifies rounding.
LR = 1e-5
# At 1e-5 VGG-19's loss goes from 8 to 27. Of the others, weights that begin a part in 10^7 apart go
# ways 3 and 7 per cent apart in PyTorch's float64.
STEEP = dict.fromkeys(("inception_v2", "resnet50", "vgg19"), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names())
def test_three_steps(name: str, tmp_path: Path) -> None:
    model, lr = with_biases(zoo_model(name)), STEEP.get(name, LR)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    single, double = (
        TorchTrainer(model, lr=lr, momentum=MOMENTUM, dtype=dtype)
        for dtype in (torch.float32, torch.float64)
    )
    artifact = odtc.compile(path, batch=BATCH, optimizer=odtc.SGD(momentum=MOMENTUM), dropout=False)
    trainer = artifact.trainer(threads=2)
    first = trainer.parameters()
    for x, y in islice(random_images(BATCH), STEPS):
        single.step(x, y)
        # The exact loss: of VGG-19's second one PyTorch's float32 is off by 3e-4.
        expected = double.step(x, y)
        assert abs(trainer.step(x, y, lr=lr) - expected) <= BOUND * abs(expected)
    check_tensors(first, trainer.parameters(), single.parameters(), double.parameters())
