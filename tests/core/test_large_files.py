"""A model above 2 GB has its weights in a file beside it, wherever odtc writes one."""

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import odtc
from odtc.core.errors import OutputError
from odtc.core.onnx_model import large_files
from odtc.core.onnx_model.large_files import BESIDE, LARGEST, new_model_file

X, Y = np.ones((2, 32), np.float32), np.zeros(2, np.int32)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As no test writes 2 GB."""
    monkeypatch.setattr(large_files, "LARGEST", 4096)


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 20_000), nn.ReLU(), nn.Linear(20_000, 4))


def results(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {session.get_inputs()[0].name: X})[0]


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_module_goes_in_and_a_trained_model_comes_out(small_limit: None, tmp_path: Path) -> None:
    path, module = tmp_path / "m.onnx", made()
    exported = odtc.from_torch(module, torch.from_numpy(X), path)
    assert "m.onnx.data" in exported.notes[-1]
    assert names(tmp_path) == {"m.onnx", "m.onnx.data"}
    assert path.with_name("m.onnx.data").stat().st_size
    onnx.checker.check_model(path)
    with torch.no_grad():
        np.testing.assert_allclose(results(path), module(torch.from_numpy(X)).numpy(), rtol=1e-5)

    trainer = odtc.compile(path, batch=2).trainer()
    trainer.step(X, Y, lr=0.1)
    trained = tmp_path / "trained.onnx"
    said = trainer.export_onnx(trained)
    assert "trained.onnx.data" in said.notes[-1]
    assert said.difference is not None
    np.testing.assert_allclose(results(trained), trainer.evaluate(X), rtol=1e-5)


def test_a_head_is_put_onto_it(small_limit: None, tmp_path: Path) -> None:
    odtc.from_torch(made(), torch.from_numpy(X), tmp_path / "m.onnx")
    head = odtc.replace_head(tmp_path / "m.onnx", 128, tmp_path / "new.onnx")
    assert "new.onnx.data" in head.said[-1]
    assert results(tmp_path / "new.onnx").shape == (2, 128)


@pytest.mark.parametrize("limit", [LARGEST, 4096])
def test_both_files_are_written_or_none(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    odtc.from_torch(made(), torch.from_numpy(X), path)
    before, model = path.read_bytes(), onnx.load(path)
    monkeypatch.setattr(large_files, "LARGEST", limit)
    with pytest.raises(KeyboardInterrupt), new_model_file(model, path):
        raise KeyboardInterrupt
    assert names(tmp_path) == {"m.onnx"}
    assert path.read_bytes() == before


@pytest.mark.parametrize("taken", ["m.onnx", "m.onnx.data"])
def test_a_folder_is_never_replaced(small_limit: None, taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).mkdir()
    with pytest.raises(OutputError, match="cannot write the file"):
        odtc.from_torch(made(), torch.from_numpy(X), tmp_path / "m.onnx")
    assert names(tmp_path) == {taken}


def test_weights_of_a_model_that_was_renamed_stay(small_limit: None, tmp_path: Path) -> None:
    path, old = tmp_path / "m.onnx", tmp_path / "old.onnx"
    odtc.from_torch(made(), torch.from_numpy(X), path)
    before = results(path)
    # Its own are replaced.
    odtc.from_torch(made(), torch.from_numpy(X), path)
    path.rename(old)
    with pytest.raises(OutputError, match=r"m\.onnx\.data, which m\.onnx does not name"):
        odtc.from_torch(made(), torch.from_numpy(X), path)
    with pytest.raises(OutputError, match=r"m\.onnx\.data, which m\.onnx does not name"):
        odtc.replace_head(old, 128, path)
    np.testing.assert_array_equal(results(old), before)


def test_no_model_ever_names_the_weights_of_another(
    small_limit: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that ends between the two files leaves none of the name, not the old one."""
    path = tmp_path / "m.onnx"
    odtc.from_torch(made(), torch.from_numpy(X), path)
    replace = os.replace

    def stopped(source: Path, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        odtc.from_torch(made(), torch.from_numpy(X), path)
    assert names(tmp_path) == {"m.onnx.data"}


def test_a_link_to_the_model_is_followed(small_limit: None, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "m.onnx").symlink_to(tmp_path / "real" / "n.onnx")
    odtc.from_torch(made(), torch.from_numpy(X), tmp_path / "m.onnx")
    assert names(tmp_path / "real") == {"n.onnx", f"n.onnx{BESIDE}"}
    assert results(tmp_path / "real" / "n.onnx").shape == (2, 4)
