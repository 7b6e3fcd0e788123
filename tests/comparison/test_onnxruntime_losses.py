"""onnxruntime-training has the losses that models of the papers are trained by."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.comparison.peers.onnxruntime_training import LOSSES, ort_trainer, write_artifacts
from odtc.comparison.peers.torch_module import ModuleTrainer
from tests.fast import fast_if

MODELS = ("dcgan_discriminator", "deep_q", "lenet", "gpt2")


def test_each_loss_has_a_model():
    assert {SMALL[name].loss for name in MODELS} == LOSSES.keys()


@pytest.mark.parametrize("name", fast_if(lambda name: name == "deep_q", MODELS))
def test_losses_are_those_of_pytorch(name, tmp_path):
    model = SMALL[name]
    module, (x, y) = make(model), next(batches(model))
    export(module, x, tmp_path / "m.onnx")
    reference = ModuleTrainer(module, model.loss, lr=model.lr)
    onnx_model, folder = onnx.load(tmp_path / "m.onnx"), tmp_path / "ort"
    trainer = ort_trainer(onnx_model, model.batch, folder, lr=model.lr, loss=model.loss)
    expected = [reference.step(x, y) for _ in range(3)]
    assert [trainer.step(x, y) for _ in range(3)] == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_it_lacks_is_none_of_its(tmp_path):
    with pytest.raises(KeyError):
        write_artifacts(onnx.ModelProto(), 1, tmp_path, "hinge")


class Scaled(nn.Module):
    """A classifier of inputs that a buffer centres."""

    mean: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, 6))
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x - self.mean)


def test_it_trains_what_odtc_trains(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    options = {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING}
    torch.onnx.export(Scaled(), (x,), tmp_path / "m.onnx", **options)
    compiled = odtc.compile(tmp_path / "m.onnx")
    ours = compiled.trainer()
    theirs = ort_trainer(onnx.load(tmp_path / "m.onnx"), 4, tmp_path / "ort", lr=0.5)
    y = np.arange(4) % 3
    for _ in range(5):
        assert theirs.step(x.numpy(), y) == pytest.approx(ours.step(x.numpy(), y, 0.5), rel=1e-5)
    assert theirs.parameters().keys() == ours.parameters().keys() - {"mean"}
