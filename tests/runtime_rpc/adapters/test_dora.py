"""Adapters with magnitudes (DoRA): the steps of PEFT's, and folders that go both ways."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

import odtc
from odtc.cli.main import main
from odtc.core.errors import ArtifactError, UnsupportedError, UsageError
from tests.fast import fast_if
from tests.runtime_rpc.adapters.language_models import LANGUAGES, tokens
from tests.runtime_rpc.adapters.sides import (
    ALPHA,
    LR,
    RANK,
    adapted,
    agreed,
    compiled,
    follow,
    logits,
)
from tests.runtime_rpc.adapters.test_quantised_bases import FORMATS, LORA, over

# PEFT says that it saves embeddings, too.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out"),
    pytest.mark.filterwarnings("ignore:.* of its base, which the step"),
]


def apart(theirs: PeftModel) -> PeftModel:
    """With magnitudes that are no norms any more."""
    with torch.no_grad():
        for key, value in theirs.named_parameters():
            if "magnitude" in key:
                value.mul_(torch.linspace(0.7, 1.4, value.numel()).reshape(value.shape))
    return theirs


@pytest.mark.parametrize("name", fast_if("llama".__eq__, LANGUAGES))
def test_five_steps_from_a_folder_to_a_folder(name: str, tmp_path: Path) -> None:
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=LANGUAGES[name].globs, dora=True)
    module, artifact = compiled(name, tmp_path, lora=lora)
    theirs = apart(adapted(name, module, use_dora=True).train())
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    follow(trainer, theirs, 1e-6)
    again = agreed(trainer, theirs, module, tmp_path / "mine")
    assert again.peft_config["default"].use_dora
    ids, _ = tokens(9)
    expected = trainer.evaluate(ids.numpy())

    trainer.export_onnx(tmp_path / "merged.onnx")
    merged = onnxruntime.InferenceSession(tmp_path / "merged.onnx")
    (found,) = merged.run(None, {"input_ids": ids.numpy()})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
    trainer.to_torch(module)
    np.testing.assert_allclose(logits(module, ids), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("form", fast_if(lambda form: form == "nbits", FORMATS))
def test_over_a_base_of_codes(form: str, tmp_path: Path) -> None:
    module, artifact = over(form, tmp_path, replace(LORA, dora=True))
    fresh = artifact.trainer(threads=1)
    ids = tokens(7)[0]
    # The magnitudes are the norms of what the codes mean: nothing changes before the first step.
    np.testing.assert_allclose(fresh.evaluate(ids.numpy()), logits(module, ids), atol=2e-5)
    theirs = apart(adapted("llama", module, use_dora=True).train())
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    follow(trainer, theirs, 1e-5)
    trainer.export_peft(tmp_path / "mine")
    again = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine")
    np.testing.assert_allclose(
        logits(again, ids), trainer.evaluate(ids.numpy()), rtol=1e-5, atol=2e-5
    )


class Net(nn.Module):
    """Convolutions with a bias, a layer of matrices of rank 2 and one of rank 3."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.plane = nn.Conv1d(3, 4, 3, padding=1), nn.Conv2d(1, 3, 2, bias=False)
        self.inner, self.flat = nn.Linear(7, 6), nn.Linear(9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.plane(torch.tanh(self.conv(x))[:, None]))
        return self.flat(torch.tanh(self.inner(h)).mean(3).flatten(1))


def test_convolutions_and_layers_with_biases(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Net(), torch.randn(4, 3, 8)
    path = odtc.from_torch(module, x, tmp_path / "net.onnx").path
    names = ["conv", "plane", "inner", "flat"]
    config = LoraConfig(
        r=2, lora_alpha=3, use_dora=True, target_modules=names, init_lora_weights=False
    )
    theirs = apart(get_peft_model(copy.deepcopy(module), config))
    theirs.save_pretrained(tmp_path / "theirs")
    artifact = odtc.compile(path, batch=4, lora="rank=2,alpha=3,dora=true")
    fresh = artifact.trainer(threads=1)
    with torch.no_grad():
        np.testing.assert_allclose(fresh.evaluate(x.numpy()), module(x).numpy(), atol=1e-6)
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    optimizer = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad], 0.1)
    for _ in range(5):
        x, y = torch.randn(4, 3, 8), torch.randint(0, 5, (4,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(theirs(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), y.numpy(), lr=0.1) == pytest.approx(loss.item(), rel=1e-6)
    for adapter in artifact.manifest.adapters:
        found = trainer.parameters()[adapter.magnitude]
        key = f"base_model.model.{adapter.magnitude}.default.weight"
        np.testing.assert_allclose(found, dict(theirs.named_parameters())[key].detach(), 1e-5)
    trainer.export_onnx(tmp_path / "merged.onnx")
    (merged,) = onnxruntime.InferenceSession(tmp_path / "merged.onnx").run(None, {"x": x.numpy()})
    np.testing.assert_allclose(trainer.evaluate(x.numpy()), merged, atol=1e-5)


class Twice(nn.Module):
    """A layer that is applied twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


@pytest.mark.parametrize("opset", [9, 17])
def test_a_layer_that_is_applied_twice_as_older_files_have_it(opset: int, tmp_path: Path) -> None:
    """A Gemm of before opset 11 has a bias in any case, and sums have their axes elsewhere."""
    torch.manual_seed(0)
    module, x = Twice(), torch.randn(4, 6)
    path = tmp_path / "m.onnx"
    torch.onnx.export(module, (x,), path, dynamo=False, opset_version=opset, input_names=["x"])
    options = {"r": 2, "lora_alpha": 3, "use_dora": True, "target_modules": ["inner", "head"]}
    config = LoraConfig(init_lora_weights=False, **options)
    theirs = apart(get_peft_model(copy.deepcopy(module), config))
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = odtc.compile(path, lora="rank=2,alpha=3,dora=true").trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    optimizer = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad], 0.1)
    for _ in range(3):
        x, y = torch.randn(4, 6), torch.randint(0, 5, (4,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(theirs(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), y.numpy(), lr=0.1) == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_channel_of_zeros_has_no_direction(quantize: str | None, tmp_path: Path) -> None:
    module = Twice()
    with torch.no_grad():
        module.head.weight[2] = 0.0
    path = odtc.from_torch(module, torch.zeros(4, 6), tmp_path / "m.onnx").path
    with pytest.raises(
        UnsupportedError, match=r"'head.weight': 1 of its 5 output channels are zer"
    ):
        odtc.compile(path, batch=4, lora="rank=2,dora=true", quantize=quantize)
    odtc.compile(path, batch=4, lora="rank=2,dora=true,targets=inner*", quantize=quantize)


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, odtc.Artifact]:
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets="*q_proj*", dora=True)
    return compiled("llama", tmp_path_factory.mktemp("step"), lora=lora)


def test_plain_adapters_are_not_taken_for_these(
    step: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    theirs = adapted("llama", step[0], target_modules=["q_proj"])
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = step[1].trainer(threads=1)
    before = trainer.parameters()
    with pytest.raises(ArtifactError, match=r"LoRA, and the step DoRA .use_dora.") as caught:
        trainer.load_adapters(tmp_path / "theirs")
    assert "--lora rank=R,alpha=ALPHA,dora=false" in caught.value.hint
    with pytest.raises(ArtifactError, match="lora_magnitude_vector', missing in the file"):
        trainer.load_adapters(tmp_path / "theirs" / "adapter_model.safetensors")
    assert all(np.array_equal(before[k], v) for k, v in trainer.parameters().items())


def test_files_alone_and_what_has_no_magnitudes(
    step: tuple[nn.Module, odtc.Artifact],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, artifact = step
    trainer, other = artifact.trainer(threads=1), artifact.trainer(threads=1)
    for seed in range(2):
        ids, labels = tokens(seed)
        trainer.step(ids.numpy(), labels.numpy(), lr=LR)
    trainer.export_adapters(tmp_path / "alone")
    other.load_adapters(tmp_path / "alone")
    assert np.array_equal(trainer.evaluate(ids.numpy()), other.evaluate(ids.numpy()))
    module.config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match=r"llama.cpp has no magnitudes .dora."):
        trainer.export_gguf(tmp_path / "a.gguf", tmp_path)
    with pytest.raises(UsageError, match="adapters with dora cannot have dropout"):
        odtc.LoRA(dora=True, dropout=0.1)
    artifact.save(tmp_path / "a.odtc")
    assert main(["inspect", str(tmp_path / "a.odtc")]) == 0
    assert "scale 3, with magnitudes (DoRA)" in capsys.readouterr().out
    trainer.export_peft(tmp_path / "peft")
    assert json.loads((tmp_path / "peft" / "adapter_config.json").read_text())["use_dora"] is True
