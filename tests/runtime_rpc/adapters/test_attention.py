"""nn.MultiheadAttention reads its weights itself, where PEFT applies no adapter."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

import odtc
from odtc.core.adapters import read_by_attention
from odtc.core.errors import UnsupportedError

WIDTH, BATCH = 8, 2


class Net(nn.Module):
    """An attention between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)
        self.att = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x)
        return self.head(self.att(h, h, h, need_weights=False)[0].mean(1))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    torch.manual_seed(0)
    module, path = Net(), tmp_path_factory.mktemp("net") / "net.onnx"
    odtc.from_torch(module, torch.zeros(BATCH, 3, WIDTH), path)
    return module, path


def trained(path: Path, targets: str) -> tuple[odtc.Artifact, odtc.Trainer, np.ndarray]:
    artifact = odtc.compile(path, batch=BATCH, lora=f"rank=2,targets={targets}")
    trainer, rng = artifact.trainer(threads=1), np.random.default_rng(0)
    x = rng.standard_normal((BATCH, 3, WIDTH)).astype(np.float32)
    for _ in range(3):
        trainer.step(x, np.arange(BATCH), lr=0.1)
    return artifact, trainer, x


def test_all_linear_computes_what_peft_does(net: tuple[nn.Module, Path], tmp_path: Path) -> None:
    module, path = net
    artifact, trainer, x = trained(path, "all-linear")
    assert [each.weight for each in artifact.manifest.adapters] == ["inner.weight"]
    for name in ("att.in_proj_weight", "att.out_proj.weight"):
        note = f"LoRA: all-linear leaves out {name!r}: nn.MultiheadAttention reads it itself, where"
        assert any(each.startswith(note) for each in artifact.manifest.notes)
    theirs = get_peft_model(copy.deepcopy(module), LoraConfig(target_modules="all-linear"))
    assert theirs.targeted_module_names == ["inner", "head", "att.out_proj"]
    trainer.export_peft(tmp_path / "mine")
    again = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine").eval()
    with torch.no_grad():
        wanted = again(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(trainer.evaluate(x), wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["att.in_proj_weight", "att.out_proj.weight"])
def test_one_that_is_named_has_no_folder(
    name: str, net: tuple[nn.Module, Path], tmp_path: Path
) -> None:
    artifact, trainer, x = trained(net[1], name)
    note = f"LoRA: {name!r} gets an adapter that export_peft cannot write: nn.MultiheadAttention"
    assert any(each.startswith(note) for each in artifact.manifest.notes)
    with pytest.raises(UnsupportedError, match=f"PEFT would not apply the adapter of {name!r}: "):
        trainer.export_peft(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    config = LoraConfig(r=2, lora_alpha=16, target_modules=["out_proj"])
    get_peft_model(copy.deepcopy(net[0]), config).save_pretrained(str(tmp_path / "theirs"))
    with pytest.raises(UnsupportedError, match=f"PEFT would not apply the adapter of {name!r}: "):
        trainer.load_adapters(tmp_path / "theirs")
    trainer.export_adapters(tmp_path / "alone")
    trainer.export_onnx(tmp_path / "merged.onnx")
    module = copy.deepcopy(net[0]).eval()
    trainer.to_torch(module)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(trainer.evaluate(x), wanted, atol=1e-6)


def test_whose_weights_they_are() -> None:
    model = ["in_proj_weight", "out_proj.weight", "a.q_proj_weight", "a.out_proj.weight_quantized"]
    assert read_by_attention([*model, "b.out_proj.weight"], model) == model
    assert not read_by_attention(["a.q_proj.weight", "a.out_proj.weight"], ["a.q_proj.weight"])
