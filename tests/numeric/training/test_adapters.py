"""Low-rank adapters: they learn as in PyTorch, nothing else moves, and they can be merged."""

import random
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import odtc
from odtc.core.adapters import Adapter
from odtc.core.errors import ArtifactError
from tests.fast import fast_if
from tests.numeric.conftest import relative_error
from tests.numeric.layers.exported import (
    LR,
    OPTIMIZER,
    Bert,
    ConvNet,
    Tokens,
    batches,
    exported,
    follow,
)
from tests.numeric.mlp import mlp_trainer

RANK, ALPHA = 3, 6.0
# Weights that are adapted: matrices stored as [out, in], read through a Transpose, convolutions,
# an embedding; and what is trained beside them.
TARGETS = {
    ConvNet: "stem.weight|pointwise.*|fc.weight",
    Tokens: "mix.weight|query.*|value.weight",
    Bert: "embedding.weight|query.*|value.*|up.weight",
}
BESIDE = {ConvNet: "head.bias", Tokens: "head.bias", Bert: "norm*"}


def delta(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns what adapters in PEFT's layout add to a weight."""
    product = b.flatten(1) @ a.flatten(1)
    return (ALPHA / RANK) * (product if product.shape == weight.flatten(1).shape else product.T)


def names_of(adapter: Adapter) -> tuple[str, str]:
    """Names of A and B in an exported file."""
    return f"base_model.model.{adapter.down}", f"base_model.model.{adapter.up}"


@pytest.mark.parametrize("make", fast_if(lambda make: make is not ConvNet, TARGETS))
def test_adapters_learn_as_in_pytorch(make: type[nn.Module], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    module = exported(make, path)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=TARGETS[make])
    artifact = odtc.compile(path, lora=lora, train=BESIDE[make], optimizer=OPTIMIZER)
    trainer = artifact.trainer()
    with pytest.warns(UserWarning, match="does not hold what was trained in addition to them: "):
        trainer.export_adapters(tmp_path / "first")
    leaves = {
        name: torch.tensor(value, requires_grad=True)
        for name, value in load_file(tmp_path / "first").items()
    }
    adapters = artifact.manifest.adapters
    assert leaves.keys() == {name for adapter in adapters for name in names_of(adapter)}

    def adapted() -> dict[str, torch.Tensor]:
        weights = {}
        for adapter in adapters:
            a, b = (leaves[name] for name in names_of(adapter))
            base = before[adapter.weight]
            weights[adapter.weight] = base + delta(base, a, b).reshape(base.shape)
        return weights

    beside = {n: p for n, p in module.named_parameters() if fnmatchcase(n, BESIDE[make])}
    follow(trainer, module, [*leaves.values(), *beside.values()], adapted)

    with pytest.warns(UserWarning, match="in addition to them"):
        trainer.export_adapters(tmp_path / "last")
    for name, value in load_file(tmp_path / "last").items():
        assert relative_error(value, leaves[name].detach().numpy()) < 1e-4, name
    found = trainer.parameters()
    for name, value in before.items():
        if name in beside:
            assert relative_error(found[name], beside[name].detach().numpy()) < 1e-4, name
        else:
            assert np.array_equal(found[name], value.numpy()), name


@pytest.mark.parametrize("make", fast_if(lambda make: make is ConvNet, TARGETS))
def test_merged_model_gives_the_same_logits(make: type[nn.Module], tmp_path: Path) -> None:
    path, merged = tmp_path / "model.onnx", tmp_path / "merged.onnx"
    module = exported(make, path)
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=TARGETS[make])
    artifact = odtc.compile(path, lora=lora, freeze_batch_norm=True, optimizer=OPTIMIZER)
    trainer = artifact.trainer()
    for x, y in batches(module):
        trainer.step(x, y, lr=LR)
    trainer.export_onnx(merged)
    before, after = (onnxruntime.InferenceSession(p) for p in (path, merged))
    x = batches(module)[0][0]
    logits = after.run(None, {"x": x})[0]
    trainer.export_onnx(tmp_path / "apart.onnx", merge=False)
    apart = onnxruntime.InferenceSession(tmp_path / "apart.onnx")
    np.testing.assert_array_equal(*(s.run(None, {"x": x})[0] for s in (before, apart)))
    assert relative_error(trainer.evaluate(x), logits) < 1e-5
    assert relative_error(before.run(None, {"x": x})[0], logits) > 1e-3


def test_no_flipped_bit_of_adapters_is_loaded(tmp_path: Path) -> None:
    trainer = mlp_trainer(tmp_path, odtc.SGD(), lora=odtc.LoRA(rank=2))
    path, rng = tmp_path / "adapters", random.Random(0)
    trainer.export_adapters(path)
    whole = path.read_bytes()
    for place in rng.sample(range(len(whole)), 200):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        with pytest.raises(ArtifactError):
            trainer.load_adapters(path)
    path.write_bytes(whole)
    trainer.load_adapters(path)


def test_checkpoints_and_adapters_alone_bring_a_run_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    module = exported(Tokens, path)
    artifact = odtc.compile(path, lora=odtc.LoRA(rank=RANK), optimizer=OPTIMIZER)
    trainer, resumed, adapted = (artifact.trainer() for _ in range(3))
    (x, y), *later = batches(module)
    trainer.step(x, y, lr=LR)
    trainer.save_checkpoint(tmp_path / "checkpoint")
    trainer.export_adapters(tmp_path / "adapters")
    adapted.load_adapters(tmp_path / "adapters")
    assert np.array_equal(adapted.evaluate(x), trainer.evaluate(x))
    resumed.load_checkpoint(tmp_path / "checkpoint")
    for x, y in later:
        assert resumed.step(x, y, lr=LR) == trainer.step(x, y, lr=LR)
    for name, value in trainer.parameters().items():
        assert np.array_equal(value, resumed.parameters()[name]), name
