"""What tuning would find on a GPU: kernels that are compiled here, and timed without TVM."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.gpu import prepare as steps
from benchmarks.gpu.prepare import copy_runtime
from benchmarks.gpu.tuning import prepare, run
from benchmarks.models.pytorch.table import SMALL


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The products of LeNet, each with two choices beside the model's."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "FULL", SMALL)
        copy_runtime(folder)
        prepare.prepare("lenet", 4, "host-vulkan", folder, 2, Console(quiet=True))
    return folder


@pytest.mark.slow
def test_the_first_choice_is_the_models(kernels: Path) -> None:
    tasks = [json.loads(path.read_text()) for path in sorted(kernels.glob("*/task.json"))]
    assert len(tasks) > 4
    for task in tasks:
        first, *others = task["choices"]
        assert first == {}
        assert all(others)
    assert max(len(task["choices"]) for task in tasks) == 3


def test_all_are_timed_and_the_best_again(
    kernels: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(run, "TURNS", 1)
    monkeypatch.setattr(run, "AGAIN", 2)
    written = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["run", str(kernels), "--output", str(written)])
    run.main()
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith("lenet, host-vulkan: ")
    tasks = json.loads(written.read_text())["tasks"]
    assert len(tasks) == len(lines)
    for task in tasks:
        assert task["wrong"] == 0
        assert len(task["samples"]) + task["refused"] == len(task["choices"])
        assert len(task["again"]["usual"]) == len(task["again"]["best"]) == 2 * run.RUNS


@pytest.mark.parametrize(
    ("main", "options", "said"),
    [
        (steps.main, ["--networks", "nope"], "no network 'nope'; there are lenet"),
        (prepare.main, ["--networks", "nope"], "no network 'nope'; there are lenet"),
        (prepare.main, ["--choices", "0"], "'0' is not a positive number"),
        (run.main, [], "holds no products; `python -m benchmarks.gpu.tuning.prepare"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_written(
    main: Callable[[], None],
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "none"
    monkeypatch.setattr(sys, "argv", ["it", str(folder), *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not folder.exists()


def test_a_run_that_ends_early_keeps_what_it_has(
    kernels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = min(kernels.glob("*/task.json")).parent
    measured, written = run.measured, tmp_path / "found.json"

    def interrupted(folder: Path, library: Any) -> dict[str, Any]:
        if folder != first:
            raise KeyboardInterrupt
        return measured(folder, library)

    for name in ("TURNS", "AGAIN"):
        monkeypatch.setattr(run, name, 1)
    monkeypatch.setattr(run, "measured", interrupted)
    monkeypatch.setattr(sys, "argv", ["run", str(kernels), "--output", str(written)])
    with pytest.raises(KeyboardInterrupt):
        run.main()
    assert len(json.loads(written.read_text())["tasks"]) == 1


def test_what_is_saved() -> None:
    """Calls count; a best that was lucky is not taken."""
    tasks = [
        {"calls": 3, "again": {"usual": [2.0], "best": [1.0]}},
        {"calls": 2, "again": {"usual": [2.0], "best": [4.0]}},
    ]
    assert run.seconds_of(tasks) == 10
    assert run.saved(tasks) == pytest.approx(0.3)
