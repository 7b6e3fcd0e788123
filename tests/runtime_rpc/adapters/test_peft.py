"""Adapters and Hugging Face PEFT: the same steps, and folders that go both ways."""

import contextlib
import copy
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from torch import nn

import odtc
from odtc.core.adapters import Adapter
from odtc.core.errors import ArtifactError, OutputError, UnsupportedError
from odtc.runtime_rpc.adapters.peft_config import module_of
from tests.fast import fast_if
from tests.runtime_rpc.adapters.conftest import StepOf
from tests.runtime_rpc.adapters.language_models import LANGUAGES, tokens
from tests.runtime_rpc.adapters.sides import ALPHA, RANK, adapted, agreed, compiled, follow, logits

TARGETS = ["q_proj", "down_proj"]


@pytest.mark.parametrize("name", fast_if("llama".__eq__, LANGUAGES))
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_five_steps_from_a_folder_to_a_folder(name: str, tmp_path: Path, step_of: StepOf) -> None:
    module, artifact = step_of(name)
    theirs = adapted(name, module).train()
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    follow(trainer, theirs, 1e-6)
    again = agreed(trainer, theirs, module, tmp_path / "mine")
    assert again.peft_config["default"].base_model_name_or_path == "tiny"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, odtc.Artifact]:
    """A step that trains the head and the last normalisation beside the adapters."""
    folder = tmp_path_factory.mktemp("llama")
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets="*q_proj*|*down_proj*")
    params = ["lm_head*", "model.norm*"]
    return compiled("llama", folder, train=params, optimizer="sgd", lora=lora)


def test_modules_beside_the_adapters_are_saved_whole(
    llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    module, artifact = llama
    trainer, ids = artifact.trainer(threads=1), tokens(0)[0]
    for seed in range(3):
        x, y = tokens(seed)
        trainer.step(x.numpy(), y.numpy(), lr=0.1)
    trainer.export_peft(tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "adapter_config.json").read_text())
    assert config["modules_to_save"] == ["lm_head", "model.norm"]
    theirs = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine")
    expected = trainer.evaluate(ids.numpy())
    np.testing.assert_allclose(logits(theirs, ids), expected, rtol=1e-5, atol=2e-5)
    theirs.save_pretrained(tmp_path / "theirs")
    other = artifact.trainer(threads=1)
    other.load_adapters(tmp_path / "theirs")
    np.testing.assert_array_equal(other.evaluate(ids.numpy()), expected)
    with pytest.raises(OutputError, match="the folder has files in it already"):
        trainer.export_peft(tmp_path / "mine")


def test_a_folder_without_the_head_says_so_and_half_precision_is_read(
    llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    module, artifact = llama
    theirs = adapted("llama", module, target_modules=TARGETS).bfloat16()
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    with pytest.warns(UserWarning, match=r"but not lm_head.weight, model.norm.weight, which"):
        trainer.load_adapters(tmp_path / "theirs")
    stored = theirs.state_dict()
    for adapter in artifact.manifest.adapters:
        name = f"base_model.model.{adapter.down}".replace("lora_A", "lora_A.default")
        expected = stored[name].float().numpy().T
        assert np.array_equal(trainer.parameters()[adapter.down], expected)


REFUSED = {
    r"rank 3 in the folder, and 2 in the step, and 1 more difference\b": {"r": 3},
    r"q_proj has scale 1 in the folder, and 3 in the step \(alpha / rank\)": {"lora_alpha": 2},
    r"scale 4\.24264 in the folder": {"use_rslora": True},
    r"the folder has DoRA \(use_dora\), and the step plain LoRA": {"use_dora": True},
    r"lora_A.weight', \[2, 16\] in the file and missing in the step": {
        "target_modules": [*TARGETS, "v_proj"]
    },
    r"lora_A.weight', missing in the file and \[2, 24\] in the step": {
        "target_modules": ["q_proj"]
    },
}


@pytest.mark.parametrize("reason", REFUSED)
def test_adapters_of_another_kind_are_refused(
    reason: str, llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    module, artifact = llama
    given = {"target_modules": TARGETS, **REFUSED[reason]}
    adapted("llama", module, **given).save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    before = trainer.parameters()
    with pytest.raises(ArtifactError, match=reason):
        trainer.load_adapters(tmp_path / "theirs")
    assert all(np.array_equal(before[k], v) for k, v in trainer.parameters().items())


def test_patterns_of_ranks_and_alphas_are_followed(
    llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    module, artifact = llama
    options = {"r": 5, "lora_alpha": 1, "rank_pattern": {".*": RANK}, "target_modules": TARGETS}
    theirs = adapted("llama", module, alpha_pattern={"q_proj": ALPHA, ".*proj": ALPHA}, **options)
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    with pytest.warns(UserWarning, match="but not lm_head"):
        trainer.load_adapters(tmp_path / "theirs")
    ids = tokens(0)[0]
    np.testing.assert_allclose(
        trainer.evaluate(ids.numpy()), logits(theirs, ids), rtol=1e-5, atol=2e-5
    )


def _without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


DAMAGED = {
    "the folder has no adapter_config.json": _without("adapter_config.json"),
    "the adapters do not exist": _without("adapter_model.safetensors"),
    "adapter_config.json is damaged": lambda f: (f / "adapter_config.json").write_text("{"),
    "it is not an object": lambda f: (f / "adapter_config.json").write_text("[]"),
    "which holds code, but no": lambda f: (f / "adapter_model.safetensors").rename(
        f / "adapter_model.bin"
    ),
    "the adapters are damaged": lambda f: (f / "adapter_model.safetensors").write_bytes(b"1"),
    "peft_type is 'IA3' in the folder": lambda f: (f / "adapter_config.json").write_text(
        '{"peft_type": "IA3"}'
    ),
    r"has scale nan in the folder": lambda f: (f / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 2, "lora_alpha": "x"}'
    ),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_damaged_folders_are_refused(
    reason: str, llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    trainer = llama[1].trainer(threads=1)
    trainer.export_peft(tmp_path / "folder")
    DAMAGED[reason](tmp_path / "folder")
    with pytest.raises(ArtifactError, match=reason):
        trainer.load_adapters(tmp_path / "folder")


@pytest.mark.filterwarnings("ignore")
def test_a_configuration_of_other_bytes_is_read_or_refused(
    llama: tuple[nn.Module, odtc.Artifact], tmp_path: Path
) -> None:
    trainer, rng = llama[1].trainer(threads=1), random.Random(0)
    trainer.export_peft(tmp_path / "folder")
    config = tmp_path / "folder" / "adapter_config.json"
    whole = json.loads(config.read_text())
    values = [None, [], {}, "(", -1, 1e400, True, [1], {"(": 2}, {"a": "b"}]
    names = [*whole, "rank_pattern", "alpha_pattern", "alora_invocation_tokens"]
    for name, value in itertools.product(names, values):
        config.write_text(json.dumps({**whole, name: value}))
        with contextlib.suppress(ArtifactError):
            trainer.load_adapters(tmp_path / "folder")
    for _ in range(200):
        data = bytearray(json.dumps(whole).encode())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        config.write_bytes(data)
        with contextlib.suppress(ArtifactError):
            trainer.load_adapters(tmp_path / "folder")


class Shares(nn.Module):
    """A head that is tied to the embedding, and a parameter alone."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.inner = nn.Embedding(8, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.words.weight
        self.shift = nn.Parameter(torch.ones(4))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.words(ids)) + self.shift)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ("words*", "words.weight is shared with another module"),
        ("shift", "it is of no module"),
    ],
)
def test_what_has_no_place_in_a_folder(params: str, reason: str, tmp_path: Path) -> None:
    odtc.from_torch(Shares(), torch.zeros(2, 3, dtype=torch.int64), tmp_path / "m.onnx")
    artifact = odtc.compile(
        tmp_path / "m.onnx",
        batch=2,
        loss="cross-entropy{axis=2}",
        train=params,
        lora="rank=2,targets=inner*",
    )
    with pytest.raises(UnsupportedError, match=reason):
        artifact.trainer().export_peft(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("suffix", ["_quantized", "_Q4", "_DQ_Q4"])
def test_the_module_of_a_quantised_weight(suffix: str) -> None:
    adapter = Adapter(f"a.b.weight{suffix}", "a.b.lora_A.weight", "a.b.lora_B.weight", 1.0)
    assert module_of(adapter) == "a.b"


def test_names_that_are_none_of_a_module(tmp_path: Path) -> None:
    torch.onnx.export(
        nn.Linear(4, 3, bias=False),
        (torch.zeros(2, 3, 4),),
        tmp_path / "m.onnx",
        dynamo=False,
    )
    artifact = odtc.compile(tmp_path / "m.onnx", batch=2, loss="mse", lora="rank=2")
    with pytest.raises(UnsupportedError, match="is called as no module of PyTorch has it"):
        artifact.trainer().export_peft(tmp_path / "folder")
    artifact.trainer().export_adapters(tmp_path / "alone")
    assert len(load_file(tmp_path / "alone")) == 2
