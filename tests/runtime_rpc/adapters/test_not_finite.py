"""Weights that are not finite leave no trainer, whichever way they would go."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

import odtc
from odtc.core.errors import NumericError
from tests.runtime_rpc.adapters.conftest import StepOf

BROKEN = "model.layers.0.mlp.down_proj.lora_A.weight"

Way = Callable[[odtc.Trainer, nn.Module, Path], object]
WAYS: dict[str, Way] = {
    "to_torch": lambda trainer, module, _: trainer.to_torch(module),
    "adapters": lambda trainer, _, folder: trainer.export_adapters(folder / "a.safetensors"),
    "PEFT": lambda trainer, _, folder: trainer.export_peft(folder / "peft"),
    "GGUF": lambda trainer, _, folder: trainer.export_gguf(folder / "a.gguf", folder),
    "ONNX": lambda trainer, _, folder: trainer.export_onnx(folder / "m.onnx", verify=False),
    "a checkpoint": lambda trainer, _, folder: trainer.save_checkpoint(folder / "c"),
}


@pytest.mark.parametrize("way", WAYS)
def test_they_are_refused_and_nothing_is_changed(step_of: StepOf, way: str, tmp_path: Path):
    module, artifact = step_of("llama")
    trainer = artifact.trainer(threads=1)
    wrong = trainer.parameters()[BROKEN].copy()
    wrong[0, 0] = np.nan
    trainer.set_parameters({BROKEN: wrong})
    module.config.save_pretrained(tmp_path)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    files, before = [*tmp_path.iterdir()], copy.deepcopy(module.state_dict())
    with pytest.raises(NumericError, match=r"elements of '.*down_proj.* are not finite"):
        WAYS[way](trainer, module, tmp_path)
    assert [*tmp_path.iterdir()] == files
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_folder_with_them_is_not_taken_up(step_of: StepOf, tmp_path: Path) -> None:
    trainer = step_of("llama")[1].trainer(threads=1)
    trainer.export_peft(tmp_path / "peft")
    path = tmp_path / "peft" / "adapter_model.safetensors"
    stored = load_file(path)
    name = next(name for name in stored if "down_proj.lora_A" in name)
    stored[name][0, 1] = np.nan
    save_file(stored, path)
    before = trainer.parameters()
    said = rf"1 of \d+ elements of '{BROKEN}' are not finite, such as nan"
    with pytest.raises(NumericError, match=said) as caught:
        trainer.load_adapters(tmp_path / "peft")
    assert caught.value.where == str(tmp_path / "peft")
    assert all(np.array_equal(value, before[k]) for k, value in trainer.parameters().items())
