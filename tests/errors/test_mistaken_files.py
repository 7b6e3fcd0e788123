"""A file given in place of another kind is named in the error as what it is."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import odtc
from odtc.cli.main import main
from odtc.core.disk.file_kinds import kind_of
from odtc.core.errors import OdtcError
from tests.cli.training.digits import Digits


def keras(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights.h5", b"")


def arrays(path: Path) -> None:
    with open(path, "wb") as file:
        np.savez(file, x=np.zeros(2))


MADE: dict[str, Callable[[Path], object]] = {
    "a file of torch.save": lambda path: torch.save({"w": torch.zeros(2)}, path),
    "a file of arrays": arrays,
    "a model of Keras": keras,
    "an HDF5 file, as of Keras": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n"),
    "a model of TensorFlow Lite": lambda path: path.write_bytes(b"\x1c\0\0\0TFL3\0\0"),
    "a file of tensors alone (safetensors)": lambda path: save_file({"w": np.zeros(2)}, path),
}


@pytest.mark.parametrize("what", MADE)
def test_what_is_no_model_and_no_artifact_is_called_so(what: str, tmp_path: Path, capsys):
    path = tmp_path / "it"
    MADE[what](path)
    for command in ("check", "inspect"):
        assert main([command, str(path)]) in (3, 8)
        assert f"it is {what}, not an " in capsys.readouterr().err


def test_models_artifacts_and_checkpoints_for_each_other(digits: Digits, tmp_path: Path, capsys):
    with odtc.load(digits.artifact) as artifact, artifact.trainer(threads=1) as trainer:
        trainer.save_checkpoint(tmp_path / "c")
        for other in (digits.model, digits.artifact, digits.train):
            with pytest.raises(OdtcError, match=r"it is (an|a) .*, not a checkpoint"):
                trainer.load_checkpoint(other)
        artifact.save(tmp_path / "named.onnx")
    odtc.load(tmp_path / "named.onnx").close()
    assert kind_of(digits.model) is None
    for argv, text in (
        (["compile", str(digits.artifact), "--batch", "2"], "an artifact of odtc, not an ONNX"),
        (["inspect", str(digits.model)], "an ONNX model, not an artifact of odtc"),
        (["inspect", str(tmp_path / "c")], "(safetensors), not an artifact of odtc"),
        (["inspect", str(tmp_path / "c")], "give it as --checkpoint beside its artifact"),
        (
            ["train", str(digits.artifact), "--data", str(digits.artifact), "--lr", "1"],
            "an artifact of odtc, not a file of arrays",
        ),
    ):
        assert main(argv) != 0
        assert text in " ".join(capsys.readouterr().err.split())
