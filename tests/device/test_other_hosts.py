"""A phone behind a host that has adb and no POSIX, as far as that can be tried on one that has."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.models.digits import digits_data, digits_model
from odtc.runtime_rpc.adb import state
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import server_processes

pytestmark = pytest.mark.device

BATCH = 32
WITHOUT_POSIX = Path(__file__).parent / "other_host"


def run(folder: Path, *words: object) -> str:
    """A command of odtc in a process without POSIX, which must go well; what it prints."""
    path = os.pathsep.join([str(WITHOUT_POSIX), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", "odtc", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_from_a_model_to_the_end_of_a_phone(plugged: AdbPhone, tmp_path: Path) -> None:
    serial = plugged.serial
    onnx.save(digits_model(), tmp_path / "d.onnx")
    step = ["--batch", BATCH, "--target", "android-cpu", "-o", "d.odtc"]
    run(tmp_path, "compile", "d.onnx", *step)
    x, y, *_ = digits_data()
    np.savez(tmp_path / "d.npz", x=x[:320], y=y[:320])
    url = run(tmp_path, "device", "setup", serial, "--key", "other", "--tracker", "0").strip()
    assert url.endswith("/other")
    assert f"{serial} " in run(tmp_path, "devices")
    assert "BROKEN" not in run(tmp_path, "device", "doctor", serial)
    assert run(tmp_path, "device", "shell", serial, "echo", "hello") == "hello\n"
    often = ["--epochs", 1, "--checkpoint", "d.ckpt", "--device", f"adb://{serial}"]
    run(tmp_path, "train", "d.odtc", "--data", "d.npz", "--lr", "0.01", *often)
    assert (tmp_path / "d.ckpt").exists()
    run(tmp_path, "device", "stop", serial)
    assert not state.find(serial)
    assert not server_processes(plugged)
