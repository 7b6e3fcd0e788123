"""Commands on a host without POSIX, as far as that can be tried on one that has it."""

import os
import subprocess
import sys
from pathlib import Path

from odtc.core.errors import ExitCode

ROOT = Path(__file__).parents[2]
WITHOUT_POSIX = ROOT / "tests" / "device" / "other_host"


def test_a_command_takes_a_file_of_options(tmp_path: Path) -> None:
    (tmp_path / "odtc.toml").write_text('[devices]\ntracker = ["127.0.0.1:1"]\n')
    path = os.pathsep.join([str(WITHOUT_POSIX), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "odtc", "config"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "127.0.0.1:1" in done.stdout


def test_tuning_says_that_it_cannot_be_done_here(tmp_path: Path) -> None:
    path = os.pathsep.join([str(WITHOUT_POSIX), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "odtc", "tune", "model.onnx", "--batch", "4"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == ExitCode.UNSUPPORTED, done.stderr
    assert "it has no signal.SIGHUP, signal.SIGKILL" in done.stderr
    assert "hint: tune on Linux" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_second_request_ends_a_command_that_hears_no_signal() -> None:
    """As while it is in a call of C++: the main thread goes on as if none had come."""
    script = (
        "import os, signal, threading, time\n"
        "from odtc.cli.last_resort import second_request_ends\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "with second_request_ends():\n"
        "    for _ in range(2): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1)\n"
        "    time.sleep(60)\n"
    )
    path = os.pathsep.join([str(WITHOUT_POSIX), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        timeout=50,
        check=False,
    )
    assert done.returncode == 130
