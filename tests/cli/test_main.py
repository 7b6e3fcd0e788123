"""The command line as a whole: help, version, errors and exit codes."""

import errno
import os
import resource
import subprocess
import sys

import pytest

import odtc
from odtc.cli.compiling import targets as targets_command
from odtc.cli.console import ReaderGoneError
from odtc.cli.main import build_parser, exit_codes, main
from odtc.core.errors import ExitCode, UsageError
from tests.timed import seconds

ODTC = (sys.executable, "-m", "odtc")


def python(code: str) -> str:
    """Standard output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout


def helped() -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ODTC, "--help"], capture_output=True, text=True, check=True)


def of_processes() -> float:
    """Seconds of the processor of those that this one started: others are not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.timed
def test_help_comes_at_once():
    found = seconds(helped, clock=of_processes)
    assert found.median < 0.3, found


def test_help_lists_the_exit_codes():
    done = helped()
    assert not done.stderr
    for code, text in exit_codes().items():
        assert f"{code:>5}  {text}\n" in done.stdout


def test_every_exit_code_is_explained():
    assert list(exit_codes()) == list(ExitCode)
    assert all(text.endswith(".") for text in exit_codes().values())


def test_the_parser_is_built_without_anything_heavy():
    code = "import sys, odtc.cli.main as m; m.build_parser(); print(*sys.modules)"
    heavy = {"tvm", "tvm_ffi", "onnx", "numpy", "rich", "safetensors"}
    assert not heavy & set(python(code).split())


def test_version(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odtc {odtc.__version__}\n"


def test_options_are_not_abbreviated():
    with pytest.raises(UsageError, match="unrecognized arguments: --js"):
        build_parser().parse_args(["targets", "--js"])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted\n"),
        (ReaderGoneError(), ExitCode.READER_GONE, ""),
        # Of stdout it is the one above.
        (
            BrokenPipeError(errno.EPIPE, "Broken pipe"),
            ExitCode.INTERNAL,
            "internal error: BrokenPipeError: [Errno 32] Broken pipe\n"
            "  hint: set ODTC_TRACEBACK=1 to see the traceback\n",
        ),
        (
            MemoryError(),
            ExitCode.INTERNAL,
            "error: out of memory\n  hint: use a smaller --batch, or a machine with more memory\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "some/file"),
            ExitCode.OUTPUT,
            "error: cannot write: No space left on device\n  where: some/file\n"
            "  hint: free some space, or set TMPDIR to another folder for temporary files\n",
        ),
        (
            RuntimeError("[red]a[/red]\nb"),
            ExitCode.INTERNAL,
            "internal error: RuntimeError: [red]a[/red] b\n"
            "  hint: set ODTC_TRACEBACK=1 to see the traceback\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_boundary(error, code, text, monkeypatch, capsys: pytest.CaptureFixture[str]):
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(targets_command, "run", fail)
    monkeypatch.delenv("ODTC_TRACEBACK", raising=False)
    assert main(["targets"]) == code
    assert capsys.readouterr() == ("", text)


def test_traceback_on_request(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(targets_command, "run", lambda _: 1 / 0)
    monkeypatch.setenv("ODTC_TRACEBACK", "1")
    assert main(["targets"]) == ExitCode.INTERNAL
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_full_disk_behind_stdout_is_said_once():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ODTC, "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.OUTPUT
    assert done.stderr.startswith("error: cannot write: No space left on device\n  hint: ")
    assert done.stderr.count("\n") == 2


def unread(stream: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """The command with stdout or stderr a pipe whose reader has left; the other one is read."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: closed}
        return subprocess.run([*ODTC, *argv], **streams, text=True, check=False)


def test_a_reader_that_leaves_is_no_error():
    done = unread("stdout", "targets")
    assert (done.returncode, done.stderr) == (ExitCode.READER_GONE, "")


def test_messages_that_nobody_reads_change_nothing():
    assert unread("stderr", "check", "/nowhere/x.onnx").returncode == ExitCode.MODEL
    done = unread("stderr", "opt", "--list")
    assert done.returncode == ExitCode.OK
    assert "absorb-transpose" in done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [(["--version"], ExitCode.OK), (["trian"], ExitCode.USAGE)]
)
def test_its_module_is_the_command_too(words: list[str], code: ExitCode):
    """`python -m odtc.cli.main` says and ends as `python -m odtc` does: it did nothing."""
    one, other = (
        subprocess.run(
            [sys.executable, "-m", name, *words], check=False, capture_output=True, text=True
        )
        for name in ("odtc", "odtc.cli.main")
    )
    assert one.returncode == other.returncode == code
    assert (one.stdout, one.stderr) == (other.stdout, other.stderr)
    assert one.stdout or one.stderr
