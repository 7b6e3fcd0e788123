"""Steps by the number of threads, beside PyTorch's: losses agree before anything is timed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cores import run
from benchmarks.gpu.prepare import copy_runtime, prepare
from odtc.runtime_rpc.native.build import CPUS


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet's, for one thread."""
    folder = tmp_path_factory.mktemp("steps")
    copy_runtime(folder, CPUS)
    prepare("lenet", 4, "host-cpu{threads=1}", folder / "lenet-1")
    return folder


def test_a_step_is_timed_beside_pytorchs(steps: Path, tmp_path: Path, capsys) -> None:
    run.main([str(steps), "--steps", "2", "--output", str(tmp_path / "cores.json")])
    (found,) = json.loads((tmp_path / "cores.json").read_text())["steps"]
    assert found["threads"] == 1
    assert {name: len(each) for name, each in found["milliseconds"].items()} == {
        "odtc": 2,
        "pytorch": 2,
    }
    assert "lenet, batch 4, threads 1: odtc " in capsys.readouterr().out


def test_a_run_that_ends_early_keeps_what_it_has(
    steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        shutil.copytree(steps / "lenet-1", tmp_path / "steps" / name)
    shutil.copy(steps / CPUS.name, tmp_path / "steps")
    measure, written = run.measure, tmp_path / "new" / "cores.json"

    def interrupted(folder: Path, count: int) -> dict[str, Any]:
        if folder.name == "b":
            raise KeyboardInterrupt
        return measure(folder, count)

    monkeypatch.setattr(run, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.main([str(tmp_path / "steps"), "--steps", "1", "--output", str(written)])
    assert len(json.loads(written.read_text())["steps"]) == 1


def test_what_differs_is_not_timed(steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "their_step", lambda entry: lambda: 1.0)
    found = run.measure(steps / "lenet-1", 2)
    assert "milliseconds" not in found
    assert "WRONG, not timed" in run.report(found)


def test_what_cannot_be_timed_is_refused(steps: Path, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main([str(tmp_path)])
    assert ended.value.code == 2
    assert "has no steps: python -m benchmarks.cores.prepare" in capsys.readouterr().err
    assert run.unfit([steps / "lenet-1" / "step.json"], 1) == ""
    assert run.unfit([steps / "lenet-1" / "step.json"], 0).startswith(
        "a step is for 1 threads, and"
    )
