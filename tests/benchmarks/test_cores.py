"""Steps by the number of threads, beside PyTorch's: losses agree before anything is timed."""

import json
from pathlib import Path

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
