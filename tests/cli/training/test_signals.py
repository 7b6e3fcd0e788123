"""SIGTERM and SIGHUP end the command as Ctrl-C does, with an exit code of their own."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from odtc.cli import interrupts
from odtc.cli.compiling import targets as targets_command
from odtc.cli.interrupts import ENDS, interruption
from odtc.cli.main import exit_codes, main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits, trained

ROOT = str(Path(__file__).parents[3])
SECONDS = 300


@contextmanager
def training(
    digits: Digits, here: Path, *before: str, stream: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """A run that has written a checkpoint and would go on for hours; it ends with the block."""
    temporary = here / "tmp"
    temporary.mkdir()
    options = ("--lr", "0.001", "--steps", "2000000", "--checkpoint", "c")
    argv = trained(digits, *options, "--checkpoint-every", "5", "--threads", "1")
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": ROOT}
    command = [*before, sys.executable, "-m", "odtc", *argv]
    with subprocess.Popen(
        command, env=environment, stdin=stream, stdout=stream, stderr=stream, text=True
    ) as process:
        try:
            until((here / "c").exists, process)
            assert any(temporary.iterdir())
            yield process
        finally:
            process.kill()


def until(is_so, process: subprocess.Popen) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_writes_the_checkpoint_and_leaves_nothing(
    digits: Digits, here: Path, number: int, run_json
):
    with training(digits, here) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == ENDS[number][0] == 128 + number
    assert not out
    assert f"{ENDS[number][1]} after step " in err
    assert err.endswith("saved c; run the same command with --resume to go on\n")
    assert not any((here / "tmp").iterdir())
    assert {path.name for path in here.iterdir()} == {"c", "tmp"}
    steps = int(err.split("after step ")[1].split()[0])
    options = ("--lr", "0.001", "--checkpoint", "c", "--threads", "1", "--resume")
    summary = run_json(*trained(digits, *options, "--steps", str(steps + 1)))
    assert summary["steps_taken"] == 1


def test_a_run_whose_terminal_goes_away_comes_to_its_checkpoint(digits: Digits, here: Path):
    """To print there is an error from then on; the kernel sends SIGHUP."""
    ours, theirs = pty.openpty()
    with training(digits, here, "setsid", "--ctty", "--wait", stream=theirs) as process:
        os.close(theirs)
        before = (here / "c").stat().st_mtime_ns
        os.close(ours)
        assert process.wait(SECONDS) == ExitCode.HUNG_UP
    assert (here / "c").stat().st_mtime_ns > before
    assert not any((here / "tmp").iterdir())


def test_a_terminal_is_whole_after_ctrl_c(digits: Digits, here: Path):
    """Curves are drawn there, with the cursor hidden meanwhile."""
    ours, theirs = pty.openpty()
    with training(digits, here, "env", "TERM=xterm", "LINES=30", stream=theirs) as process:
        os.close(theirs)
        asked, written = False, b""
        with suppress(OSError):  # the end of what was written there
            while part := os.read(ours, 1 << 16):
                written += part
                if not asked and b"step 5" in written:
                    process.send_signal(signal.SIGINT)
                    asked = True
        assert process.wait(SECONDS) == ExitCode.INTERRUPTED
    os.close(ours)
    hidden, shown = b"\x1b[?25l", b"\x1b[?25h"
    assert b". loss" in written
    assert written.count(hidden) == written.count(shown) == 1
    assert b"interrupted after step" in written.partition(shown)[2]


def test_under_nohup_the_run_goes_on(digits: Digits, here: Path):
    with training(digits, here, "nohup") as process:
        process.send_signal(signal.SIGHUP)
        before = (here / "c").stat().st_mtime_ns
        until(lambda: (here / "c").stat().st_mtime_ns > before, process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.TERMINATED


def test_a_signal_while_it_compiles_leaves_nothing(digits: Digits, here: Path):
    (here / "tmp").mkdir()
    argv = ["compile", str(digits.model), "--batch", "16", "-o", "out.odtc"]
    environment = os.environ | {"TMPDIR": str(here / "tmp"), "PYTHONPATH": ROOT}
    with subprocess.Popen(
        [sys.executable, "-m", "odtc", *argv], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("compile the kernels"):
                break
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read().endswith("terminated\n")
    assert process.returncode == ExitCode.TERMINATED
    assert [path.name for path in here.iterdir()] == ["tmp"]
    assert not any((here / "tmp").iterdir())


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_that_tvm_turns_into_an_error_is_one(number: int, monkeypatch, capsys):
    def ended(_: object) -> int:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise RuntimeError from None
        return 0

    monkeypatch.setattr(targets_command, "run", ended)
    before = {number: signal.getsignal(number) for number in ENDS}
    assert main(["targets"]) == 128 + number
    assert capsys.readouterr() == ("", f"{ENDS[number][1]}\n")
    assert {number: signal.getsignal(number) for number in ENDS} == before


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_before_the_command_begins_is_reported(number: int, monkeypatch, capsys):
    """It comes as soon as the last handler is in its place."""
    real, before = signal.signal, {number: signal.getsignal(number) for number in ENDS}

    def placed(which: int, handler: object) -> object:
        found = real(which, handler)
        if which == list(ENDS)[-1] and handler != before[which]:
            signal.raise_signal(number)
        return found

    monkeypatch.setattr(signal, "signal", placed)
    assert main(["targets"]) == 128 + number
    assert capsys.readouterr() == ("", f"{ENDS[number][1]}\n")
    assert {number: signal.getsignal(number) for number in ENDS} == before


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_the_second_signal_does_not_wait(first: int, second: int, monkeypatch):
    monkeypatch.setattr(interrupts, "SAME_REQUEST_SECONDS", 0.0)
    with interruption(at_once=True) as outer, interruption(at_once=False) as asked:
        signal.raise_signal(first)
        assert (asked.number, outer.number) == (first, 0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
        assert asked.number == first


@pytest.mark.parametrize("number", ENDS)
def test_one_request_may_come_as_several_signals(number: int):
    """Those of `timeout` and of a shell whose terminal is gone come twice, Ctrl-C does not."""
    with interruption(at_once=True), interruption(at_once=False):
        signal.raise_signal(number)
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        else:
            signal.raise_signal(number)


def test_what_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption(at_once=True) as asked:
            signal.raise_signal(signal.SIGHUP)
            assert not asked.number
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# A command that no signal reaches for minutes: it is in C.
_DEEP = """
import hashlib, sys
from odtc.cli.compiling import targets
from odtc.cli.main import main
from odtc.core.disk.files import atomic_write
from odtc.core.disk.left_behind import new_folder

def run(_):
    folder = new_folder()
    with atomic_write("out") as temporary:
        print("deep", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

targets.run = run
sys.exit(main(["targets"]))
"""


def seconds_of(process: subprocess.Popen[str]) -> float:
    """Returns the processor time that it has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_does_not_wait_for_c(here: Path, number: int):
    environment = os.environ | {"TMPDIR": str(here), "PYTHONPATH": ROOT}
    with subprocess.Popen(
        [sys.executable, "-c", _DEEP], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "deep\n"
            said = seconds_of(process)
            until(lambda: seconds_of(process) > said + 0.2, process)
            process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(interrupts.SAME_REQUEST_SECONDS + 0.5)
            assert any(here.iterdir())
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()
    assert not any(here.iterdir())


def test_the_page_of_exit_codes_has_them_all():
    text = (Path(ROOT) / "docs" / "errors.md").read_text("utf-8")
    assert all(f"| {int(code)} |" in text for code in exit_codes())
