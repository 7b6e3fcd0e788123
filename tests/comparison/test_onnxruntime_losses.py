"""onnxruntime-training has the losses that models of the papers are trained by."""

import onnx
import pytest

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
