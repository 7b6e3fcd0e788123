"""`odtc train` with adapters: a run begins with those of a folder, and writes one."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.conftest import Digits


@pytest.fixture
def artifact(digits: Digits, here: Path, run_json) -> Path:
    run_json("compile", digits.model, "--batch", "16", "--lora", "rank=2,targets=fc*.weight")
    return here / "d.odtc"


def train(artifact: Path, digits: Digits, *more: str) -> int:
    return main(["train", str(artifact), "--data", str(digits.train), "--steps", "2", *more])


def test_a_run_goes_on_from_a_folder(
    artifact: Path, digits: Digits, run_json, capsys: pytest.CaptureFixture[str]
) -> None:
    once = ("--lr", "0.05", "--export-peft", "one", "--base-model", "digits")
    assert train(artifact, digits, *once, "--export-adapters", "a.safetensors") == 0
    config = json.loads(Path("one/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "digits"
    assert config["target_modules"] == ["fc1", "fc2"]
    first, alone = load_file("one/adapter_model.safetensors"), load_file("a.safetensors")
    assert first.keys() == alone.keys()
    assert all(np.array_equal(first[name], alone[name]) for name in first)
    assert "adapters for PEFT in one" in capsys.readouterr().out
    again = ("--lr", "0", "--load-adapters", "one", "--export-peft", "two")
    found = run_json("train", artifact, "--data", digits.train, "--steps", "2", *again)
    assert found["peft"] == "two"
    second = load_file("two/adapter_model.safetensors")
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_resumed_run_has_the_checkpoints_adapters(artifact: Path, digits: Digits) -> None:
    keep = ("--lr", "0.05", "--checkpoint", "c.ckpt")
    assert train(artifact, digits, *keep, "--export-adapters", "a.safetensors") == 0
    assert train(artifact, digits, *keep, "--load-adapters", "a.safetensors") == 0
    more = ("--resume", "--load-adapters", "a.safetensors", "--export-adapters", "b.safetensors")
    assert train(artifact, digits, *keep, *more) == 0
    first, second = load_file("a.safetensors"), load_file("b.safetensors")
    assert not any(np.array_equal(first[name], second[name]) for name in first)


def test_what_llama_cpp_cannot_have_is_seen_before_the_first_step(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("config.json").write_text('{"model_type": "gpt2", "n_head": 2, "n_embd": 8, "n_layer": 1}')
    more = ("--lr", "0.05", "--export-gguf", "a.gguf", "--base-config", "config.json")
    assert train(artifact, digits, *more) == ExitCode.UNSUPPORTED
    assert "has no tensor for the adapter of 'fc1' in its gpt2" in capsys.readouterr().err
    assert not Path("a.gguf").exists()


def test_a_folder_that_is_taken_is_seen_before_the_first_step(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("full").mkdir()
    Path("full/file").touch()
    assert train(artifact, digits, "--lr", "0.05", "--export-peft", "full") == ExitCode.OUTPUT
    assert "the folder has files in it already" in capsys.readouterr().err
