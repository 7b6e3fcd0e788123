"""The runtime under sanitizers: edited files are refused or read; two trainers share nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

import odtc
from odtc.core.process.cxx import cc_command, cxx_command
from odtc.runtime_rpc.native.build import FOLDER
from tests.core.test_weights_beside import external
from tests.native.parity import TARGET, unpacked
from tests.native.sanitized import (
    ADDRESS,
    CHECKPOINT,
    THREAD,
    build,
    fuzzed,
    run,
    small_artifact,
)
from tests.needs import needs
from tests.numeric.training import test_half_base as half

MUTATIONS, STEPS = 400, 8

pytestmark = needs(cc_command(), reason="no C compiler")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_artifact(tmp_path_factory.mktemp("sanitized"))


def test_edited_files_are_refused_or_read(members: Path, tmp_path: Path) -> None:
    *found, checkpoints = fuzzed(members, tmp_path, MUTATIONS)
    # Some are read, so that what is behind the checks is met as well.
    assert all(0 < each < MUTATIONS for each in found)
    # Every byte of these is hashed: at most an edit that changed nothing is read.
    assert checkpoints < MUTATIONS // 50


def test_edited_places_of_weights_beside_are_refused_or_read(tmp_path: Path) -> None:
    path = external(half.written(tmp_path / "m.onnx", "float32", 2, "float32"))
    lora = odtc.LoRA(rank=2, targets="k|v")
    made = odtc.compile(path, TARGET, loss="mse", lora=lora, params=[], weights_beside=True)
    members = unpacked(made, tmp_path / "artifact")
    with made.trainer(threads=1) as trainer:
        trainer.save_checkpoint(members / CHECKPOINT)
    # Edited files lie in the folder itself.
    shutil.copytree(tmp_path / "weights", members / "weights")
    found = fuzzed(members, tmp_path, MUTATIONS)
    assert 0 < found[1] < MUTATIONS


@pytest.mark.parametrize("flags", [ADDRESS, THREAD], ids=["address", "thread"])
def test_two_trainers_in_two_threads(flags, members: Path, tmp_path: Path) -> None:
    program = build("two_trainers", tmp_path, flags)
    lines = run(program, members, [], [str(STEPS), "2"]).splitlines()
    losses = [line.split() for line in lines[:STEPS]]
    assert all(first == second for first, second in losses)
    assert len({first for first, _ in losses}) > STEPS // 2
    assert lines[STEPS:] == ["9", "9"]  # ODTC_CANCELLED


def test_a_step_allocates_nothing(members: Path, tmp_path: Path) -> None:
    program = build("allocations", tmp_path, ())
    opening, steps = map(int, run(program, members, [], [str(STEPS), "2"]).split())
    assert opening > 0
    assert steps == 0


def test_the_header_is_c_plus_plus(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "odtc.h", tmp_path)
    (tmp_path / "use.cc").write_text('#include "odtc.h"\nint f() { return odtc_open(0, 0); }\n')
    command = [*cxx_command(), "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run([*command, "-fsyntax-only", str(tmp_path / "use.cc")], check=True)
