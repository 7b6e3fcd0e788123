"""The example in C, built by CMake: stopped, killed and kept waiting it ends with the same bits."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.export import export_app
from odtc.artifact import Artifact
from odtc.core.process.cxx import cc_command
from tests.app.killed import assert_one_step_is_lost, killed_runs, run_of, whole_run
from tests.app.overflowing import overflowing
from tests.native.parity import tvm_trainer
from tests.needs import needs

EXAMPLE = Path(__file__).parents[2] / "examples" / "linux"
STEPS = 60
KILLS = 5
LATER = 75

pytestmark = needs(cc_command(), shutil.which("cmake"), reason="no C compiler, or no CMake")


SIDE, CLASSES, OTHERS, FIRST_OTHER = 8, 10, 1000, 2**40


def drawn(number: np.ndarray) -> np.ndarray:
    number = (number ^ number >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ number >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((number ^ number >> np.uint64(31)) >> np.uint64(40)).astype(np.float32) / 2**24


def others() -> tuple[np.ndarray, np.ndarray]:
    """The pictures that the example evaluates, and their classes."""
    first = (np.arange(OTHERS, dtype=np.uint64) + np.uint64(FIRST_OTHER + 1)) * np.uint64(1000)
    classes = (CLASSES * drawn(first * np.uint64(77))).astype(np.int32)
    pixel = np.arange(SIDE * SIDE, dtype=np.uint64)
    row, column = pixel // np.uint64(SIDE), pixel % np.uint64(SIDE)
    line = np.where(classes[:, None] < CLASSES // 2, row, column)
    bright = (line == classes[:, None] % (CLASSES // 2)) * np.float32(0.5)
    noise = drawn(first[:, None] + pixel)
    return (bright + noise).astype(np.float32).reshape(-1, 1, SIDE, SIDE), classes


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("model") / "digits.onnx")
    options = {"batch": 32, "optimizer": odtc.SGD(momentum=0.9), "eval_batch": 8}
    return odtc.compile(path, "host-cpu{threads=2}", **options)


@pytest.fixture(scope="module")
def project(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example beside what was exported, built."""
    folder = tmp_path_factory.mktemp("example") / "linux"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("app", "build"))
    export_app(artifact, "linux", folder / "app", "digits")
    flags = "-DCMAKE_C_FLAGS=-O2 -Wall -Wextra -Werror"
    for words in (["-S", ".", "-B", "build", flags], ["--build", "build", "-j2"]):
        subprocess.run(["cmake", *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return folder


def command(project: Path, checkpoint: Path, steps: int, *more: str) -> list[str]:
    # Without a folder that says how this machine is, the test would depend on it.
    sys = more or (str(project / "no_sys"),)
    words = (project / "build/train", project / "app/model", checkpoint)
    return [*map(str, words), str(steps), *sys]


@pytest.fixture(scope="module")
def whole(project: Path) -> tuple[str, bytes]:
    """What a run prints that nothing stops, and its checkpoint."""
    checkpoint = project / "whole"
    words = command(project, checkpoint, STEPS)
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return done.stdout, checkpoint.read_bytes()


def test_it_trains(whole: tuple[str, bytes], artifact: Artifact, project: Path) -> None:
    losses = [float(loss) for loss in run_of(whole[0]).losses.values()]
    assert len(losses) == STEPS
    assert sum(losses[-10:]) < sum(losses[:10]) / 4
    # The trainer of Python takes the checkpoint up.
    with tvm_trainer(artifact, threads=1) as trainer:
        trainer.load_checkpoint(project / "whole")
        assert trainer.steps == STEPS
        pictures, classes = others()
        right = int(np.sum(trainer.evaluate(pictures).argmax(1) == classes))
    assert f"{right} of {OTHERS} other pictures are told right" in whole[0]
    assert right > 800


def test_killed_at_any_moment(project: Path, tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    checkpoint = tmp_path / "killed" / "checkpoint"
    runs = killed_runs(lambda steps: command(project, checkpoint, steps), KILLS)
    whole = whole_run(command(project, tmp_path / "whole", max(runs[-1].losses)))
    assert_one_step_is_lost(runs, whole)
    assert checkpoint.read_bytes() == (tmp_path / "whole").read_bytes()
    assert [path.name for path in checkpoint.parent.iterdir()] == ["checkpoint"]


def test_what_a_kill_left_of_a_checkpoint_is_written_over(project: Path, tmp_path: Path) -> None:
    for name in ("checkpoint.odtc-part", "other.odtc-part"):
        (tmp_path / name).write_bytes(b"a part" * 100_000)
    subprocess.run(command(project, tmp_path / "checkpoint", 1), check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint", "other.odtc-part"}


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM])
def test_stopped(project: Path, whole: tuple[str, bytes], tmp_path: Path, word: int) -> None:
    """All that it has taken is in the checkpoint."""
    endless = command(project, tmp_path / "checkpoint", 10**6)
    process = subprocess.Popen(endless, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline().startswith("step 1 ")
    process.send_signal(word)
    run = run_of(process.stdout.read())
    assert process.wait() == 0
    (taken,) = map(int, re.findall(r"^stopped after step (\d+), in ", run.last))
    assert taken - max(run.losses, default=1) in (0, 1)
    later = command(project, tmp_path / "checkpoint", max(STEPS, taken))
    done = subprocess.run(later, check=True, capture_output=True, text=True)
    assert run_of(done.stdout).begin == taken
    if taken <= STEPS:
        assert (tmp_path / "checkpoint").read_bytes() == whole[1]


def test_a_checkpoint_of_no_use_is_set_aside(
    project: Path, whole: tuple[str, bytes], tmp_path: Path
) -> None:
    """A damaged one, and one of the step that there was before an update."""
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    with odtc.compile(path, "host-cpu{threads=2}", batch=32).trainer(threads=1) as trainer:
        trainer.save_checkpoint(tmp_path / "other")
    checkpoint = tmp_path / "checkpoint"
    for content in (b"not one", (tmp_path / "other").read_bytes()):
        checkpoint.write_bytes(content)
        words = command(project, checkpoint, 1)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert f"training begins anew: the checkpoint is now {checkpoint}.unfit\n" in done.stderr
        assert run_of(done.stdout).losses[1] == run_of(whole[0]).losses[1]
        assert checkpoint.with_name("checkpoint.unfit").read_bytes() == content
        assert whole_run(words).begin == 1


def test_after_a_step_that_is_not_finite(
    project: Path, whole: tuple[str, bytes], tmp_path: Path
) -> None:
    """Of weights that overflow: it stops with a message, and begins anew with a smaller rate."""
    onnx.save(overflowing(digits_model()), path := tmp_path / "digits.onnx")
    bad = odtc.compile(path, "host-cpu{threads=2}", batch=32, optimizer=odtc.SGD(momentum=0.9))
    export_app(bad, "linux", tmp_path / "app", "digits")
    checkpoint = tmp_path / "checkpoint"
    words = command(project, checkpoint, 3)
    done = subprocess.run(
        [words[0], str(tmp_path / "app/model"), *words[2:]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "at step 1" in done.stderr
    assert not checkpoint.exists()
    assert checkpoint.with_name("checkpoint.not-finite").exists()
    losses = run_of(whole[0]).losses
    smaller = whole_run(words).losses
    assert [step for step in smaller if smaller[step] == losses[step]] == [1]


REASONS = {
    "class/power_supply/BAT0/status": ("Discharging", "Charging", "it runs on its battery"),
    "class/thermal/thermal_zone3/temp": ("85000", "84999", "it is hot"),
}


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_to_wait(
    project: Path, whole: tuple[str, bytes], tmp_path: Path, name: str
) -> None:
    """It ends with the code that systemd starts it again for, at once and while it trains."""
    bad, good, reason = REASONS[name]
    (file := tmp_path / "sys" / name).parent.mkdir(parents=True)
    file.write_text(f"{bad}\n")
    words = command(project, tmp_path / "checkpoint", STEPS, str(tmp_path / "sys"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == LATER
    assert done.stdout.startswith(f"{reason} after step 0,")
    file.write_text(f"{good}\n")
    endless = command(project, tmp_path / "checkpoint", 10**6, str(tmp_path / "sys"))
    process = subprocess.Popen(endless, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert "goes on after step 0" in process.stdout.readline()
    file.write_text(f"{bad}\n")
    run = run_of(process.stdout.read())
    assert process.wait() == LATER
    assert run.last.startswith(f"{reason} after step {max(run.losses, default=0)},")
    for step, loss in run_of(whole[0]).losses.items():
        assert run.losses.get(step, loss) == loss


def test_systemd_runs_it() -> None:
    """What its unit says agrees with the program, which it starts again for one code."""
    unit = (EXAMPLE / "train.service").read_text()
    assert f"RestartForceExitStatus={LATER}\n" in unit
    assert f"LATER = {LATER} " in (EXAMPLE / "train.c").read_text()
