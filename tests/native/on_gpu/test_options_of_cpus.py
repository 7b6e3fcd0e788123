"""Options that a step on a GPU would not heed are refused, by Python and by each command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.cli.main import main
from odtc.core.errors import ExitCode, UsageError
from tests.numeric.mlp import batches, mlp_artifact

TARGET = "host-opencl"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), odtc.SGD(), target=TARGET)


@pytest.fixture(scope="module")
def path(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    artifact.save(path := tmp_path_factory.mktemp("artifact") / "mlp.odtc")
    return path


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"threads": 1}, "threads would change nothing: host-opencl"),
        ({"cores": "big"}, "cores would change nothing: host-opencl"),
        ({"threads": 1, "cores": "0"}, "threads and cores would change nothing: host-opencl"),
        ({"storage": "here"}, "nothing of the step lies in files: the opencl device reads none"),
        ({"offload_state": True}, "the optimizer's state cannot lie in files"),
    ],
)
def test_a_trainer_refuses_them(artifact: Artifact, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        artifact.trainer(**options)


def test_a_trainer_that_refused_threads_goes_on(artifact: Artifact) -> None:
    ((x, y),) = batches(1)
    with artifact.trainer() as trainer:
        with pytest.raises(UsageError, match="leave threads out, or compile the model for a CPU"):
            trainer.use_threads(1)
        assert np.isfinite(trainer.step(x, y, lr=0.01))


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--data", "data.npz", "--lr", "0.1", "--steps", "1", "--threads", "1"),
        ("train", "--data", "data.npz", "--lr", "0.1", "--steps", "1", "--cores", "big"),
        ("profile", "--threads", "1"),
        ("profile", "--cores", "all"),
        ("sweep", "--threads", "1", "2"),
        ("sweep", "--cores", "big"),
    ],
    ids=" ".join,
)
def test_commands_refuse_them(
    path: Path,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ((x, y),) = batches(1)
    np.savez("data.npz", x=x, y=y)
    command, *rest = words
    assert main([command, str(path), *rest]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"would change nothing: {TARGET}" in said
    assert "computes on a GPU" in said


def test_a_sweep_measures_a_step_on_a_gpu_once(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows"
    words = ["sweep", str(path), "--steps", "2", "--rounds", "2", "-o", str(rows)]
    assert main(words) == ExitCode.OK
    found = [json.loads(line) for line in rows.read_text().splitlines()[1:]]
    assert [(row["configuration"]["cores"], row["configuration"]["threads"]) for row in found] == [
        ("", 0),
        ("", 0),
    ]
    assert all(len(row["seconds"]) == 2 and not row["reason"] for row in found)
    assert "threads 0" not in capsys.readouterr().out
