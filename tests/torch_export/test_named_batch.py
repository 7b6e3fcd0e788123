"""The batch that an exported file names in its outputs is known where operators do not show it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.core.ir.place import Place

BATCH, SAMPLES = 4, 12


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A net with a pooling to 3 of 10 places, which PyTorch's exporter writes as a GatherND."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(18, 5)
    )
    return odtc.from_torch(net, torch.zeros(2, 1, 10, 10), tmp_path / "net.onnx").path


def test_a_file_of_many_samples_is_trained_on(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((SAMPLES, 1, 10, 10), np.float32), rng.integers(5, size=SAMPLES)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    losses = []
    for axes in ({}, {"output": 0}):
        artifact = odtc.compile(exported, batch=BATCH, batch_axis=axes)
        assert artifact.manifest.labels[0].place == Place(0)
        # That each is computed alone nobody says: whole batches are evaluated.
        assert artifact.manifest.evaluations[0].place == (Place(0) if axes else None)
        artifact.save(tmp_path / "net.odtc")
        argv = ["train", tmp_path / "net.odtc", "--data", tmp_path / "d.npz", "--epochs", 2]
        assert main([*map(str, argv), "--lr", "0.1"]) == ExitCode.OK
        losses.append(capsys.readouterr().out.split(",")[1])
    assert losses[0] == losses[1]


def test_what_the_file_does_not_say_is_to_be_said(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odtc.compile(exported, batch=BATCH, batch_axis={"output": None}).save(tmp_path / "net.odtc")
    np.savez(tmp_path / "d.npz", x=np.zeros((SAMPLES, 1, 10, 10), np.float32), y=np.zeros(SAMPLES))
    argv = ["train", tmp_path / "net.odtc", "--data", tmp_path / "d.npz", "--steps", 1, "--lr", 0.1]
    assert main([*map(str, argv)]) == ExitCode.DATA
    assert "compile with --batch-axis OUTPUT=0" in capsys.readouterr().err
