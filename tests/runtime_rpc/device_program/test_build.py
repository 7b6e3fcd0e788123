"""`odtc device build`: the program, and what it says on a command line."""

import fcntl
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.native.device import build
from odtc.runtime_rpc.native.device.build import FOLDER, device_program
from tests.runtime_rpc.own_server import OTHER_SOURCES, wait_for_server, words_of
from tests.runtime_rpc.own_tracker import tracking

MOST_BYTES = 256_000
MOST_IDLE_KIB = 4096


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("build") / "odtc-device"
    assert main(["device", "build", "-o", str(path)]) == ExitCode.OK
    return path


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_is_a_small_program(program: Path) -> None:
    assert program.stat().st_size < MOST_BYTES
    assert os.access(program, os.X_OK)
    done = run(program, "--help")
    assert done.returncode == 0
    assert "--tracker ADDRESS" in done.stdout


NEEDED = ("--listen", "tcp:0", "--tracker", "tcp:1", "--key", "k")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--listen: is missing"),
        (["--listen"], "--listen: wants a value"),
        (["--nothing"], "--nothing: is not an option"),
        ([*NEEDED], "--folder: is missing"),
        ([*NEEDED, "--folder", "/dev/null/x"], "/dev/null/x: Not a directory"),
        ([*NEEDED, "--folder", "x", "--port", "many"], "--port: is not a number in its range"),
        ([*NEEDED, "--folder", "x", "--idle", "nan"], "--idle: is not a number in its range"),
        (["--listen", "0.0.0.0:1", *NEEDED[2:], "--folder", "x"], "is not tcp:PORT"),
        (["--listen", "tcp:99999", *NEEDED[2:], "--folder", "x"], "is not tcp:PORT"),
    ],
)
def test_a_wrong_word_is_named(program: Path, tmp_path: Path, words: list[str], says: str) -> None:
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith("odtc-device: ")
    assert says in done.stderr


def test_a_tracker_that_does_not_answer_is_told_once(program: Path, tmp_path: Path) -> None:
    log, folder = tmp_path / "log", str(tmp_path / "sessions")
    words = [program, *NEEDED, "--folder", folder, "--until-closed"]
    with (
        log.open("w") as said,
        subprocess.Popen(words, stdin=subprocess.PIPE, stderr=said) as server,
    ):
        deadline = time.monotonic() + 20
        while not log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = run(program, *NEEDED, "--folder", folder, "--until-closed")
        assert second.returncode == 2
        # By then the tracker was asked again.
        assert "another server has its sessions there" in second.stderr
        assert server.stdin
        server.stdin.close()
        server.wait(20)
    told, last = log.read_text().splitlines()
    assert told.startswith("no tracker answers at tcp:1;")
    assert last == "standard input was closed"
    assert not (tmp_path / "sessions").exists()


def test_a_server_waits_for_the_end_of_one_that_was_killed(program: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "sessions").mkdir()
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    words = [program, *NEEDED, "--folder", str(folder), "--until-closed"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        time.sleep(0.5)
        assert server.poll() is None
        os.close(lock)
        assert b'"pid"' in server.stdout.readline()
        server.stdin.close()
        assert server.wait(20) == 0


def test_it_takes_little_memory_while_it_waits(program: Path, tmp_path: Path) -> None:
    with tracking() as port:
        words = [*words_of(port, tmp_path / "sessions"), "--until-closed"]
        at = words.index("--odtc")
        command = [program, *words[:at], *words[at + 2 :]]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            assert server.stdin
            with server.stdin:
                wait_for_server(port)
                status = Path(f"/proc/{server.pid}/status").read_text()
    (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert int(resident) < MOST_IDLE_KIB


def test_a_machine_without_a_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    words = ["device", "build", "--machine", "aarch64", "-o", str(tmp_path / "program")]
    assert main(words) == ExitCode.BUILD
    assert "apt-get install gcc-aarch64-linux-gnu" in capsys.readouterr().err
    assert not (tmp_path / "program").exists()


def test_what_is_kept_is_of_the_sources_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may change while a process runs, which has looked at them before."""
    kept: list[list[bytes]] = []

    def look(made_from: list[bytes], _: object) -> bytes:
        kept.append(made_from)
        return b""

    monkeypatch.setattr(build, "kept_library", look)
    device_program()
    monkeypatch.setattr(build, "source_hash", lambda: OTHER_SOURCES)
    device_program()
    assert kept[0] != kept[1]


def test_its_sources_are_small() -> None:
    for path in FOLDER.rglob("*.[ch]"):
        assert len(path.read_text().splitlines()) < 320, path
