"""Runs and sweeps go on behind a fault of the phone, as if nothing had been."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from odtc.cli.main import main
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow
from odtc.runtime_rpc.sweep.sweep import Sweep
from tests.device.adb_host import wait_until_free
from tests.device.faults.causing import (
    ROUNDS,
    freeze,
    kill_session,
    pull_the_cable,
    soon,
    train,
)
from tests.fast import fast_if
from tests.meanwhile import as_soon_as

pytestmark = pytest.mark.device


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize(
    "fault", fast_if(lambda fault: fault is kill_session, [kill_session, pull_the_cable, freeze])
)
def test_a_run_goes_on_as_if_nothing_had_been(
    ready: AdbPhone,
    files: Path,
    expected: dict[str, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: Callable[[AdbPhone], None],
    number: int,
) -> None:
    checkpoint = tmp_path / "checkpoint"

    with as_soon_as(checkpoint.exists, lambda: fault(ready)):
        code = train(files, f"adb://{ready.serial}", checkpoint)
    said = capsys.readouterr().err
    assert code == 0, said
    assert "the device is back" in said
    found = load_file(checkpoint)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_sweep_goes_on_behind_a_session_that_died(
    ready: AdbPhone, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    measured = Sweep._measured

    def struck(sweep: Sweep, configuration: Configuration, *others) -> SweepRow:
        if configuration.model == "other":
            return measured(sweep, configuration, *others)
        with soon(lambda: kill_session(ready)):
            return measured(sweep, configuration, *others)

    monkeypatch.setattr(Sweep, "_measured", struck)
    other, rows = tmp_path / "other.odtc", tmp_path / "rows"
    shutil.copy(files / "digits.odtc", other)
    argv = ["sweep", files / "digits.odtc", other, "--device", f"adb://{ready.serial}"]
    argv += ["--cores", "all", "--threads", 1, "--steps", 40, "--rounds", 1, "-o", rows]
    assert main([str(word) for word in argv]) == 0
    died, whole = (json.loads(line) for line in rows.read_text().splitlines()[1:])
    assert "ended by SIGKILL" in died["reason"]
    assert died["seconds"] == []
    assert whole["reason"] == ""
    assert len(whole["seconds"]) == 40
    wait_until_free(ready)


def test_a_sweep_waits_for_a_cable_that_was_pulled(
    ready: AdbPhone,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was measured then is measured again: that it was pulled is no result."""
    measured, pulled = Sweep._measured, []

    def struck(sweep: Sweep, *others) -> SweepRow:
        if pulled:
            return measured(sweep, *others)
        pulled.append(True)
        with soon(lambda: pull_the_cable(ready)):
            return measured(sweep, *others)

    monkeypatch.setattr(Sweep, "_measured", struck)
    argv = ["sweep", files / "digits.odtc", "--device", f"adb://{ready.serial}", "--cores", "all"]
    argv += ["--threads", 1, "--steps", 40, "--rounds", 1, "-o", tmp_path / "rows"]
    assert main([str(word) for word in argv]) == 0
    (row,) = (json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()[1:])
    assert row["reason"] == ""
    assert len(row["seconds"]) == 40
    assert "; waiting for the device" in capsys.readouterr().err
    wait_until_free(ready)
