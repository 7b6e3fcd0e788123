"""Two processes side by side: what they say, how they end, and that neither is left."""

import fcntl
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests import beside

# A command that goes on until it is interrupted, which it counts; then it cleans up.
_GOES_ON = """
import pathlib, signal, time
told = []
signal.signal(signal.SIGINT, lambda *_: told.append("interrupted"))
pathlib.Path("{name}").touch()
while not told:
    time.sleep(0.01)
time.sleep(0.3)
print("{name}", *told)
"""
_PASSES, _FAILS = "print('found nothing')", "print('found', 7); raise SystemExit(7)"


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def command(check: str, tests: str) -> list[str]:
    return [sys.executable, "-m", "tests.beside", shlex.join(python(check)), *python(tests)]


def started(folder: Path, check: str, tests: str, **options) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(beside.__file__).parents[1])}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options}
    words = command(check, tests)
    return subprocess.Popen(words, cwd=folder, env=environment, text=True, **streams)


def goes_on(name: str) -> str:
    return _GOES_ON.format(name=name)


@pytest.mark.parametrize(
    ("check", "tests", "status"),
    [
        (_PASSES, "print('tests')", 0),
        (_PASSES, "print('tests'); raise SystemExit(3)", 3),
        (_FAILS, "print('tests')", 7),
        (_PASSES, "print('tests', flush=True); import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
    ids=["both pass", "tests fail", "check fails", "killed"],
)
def test_both_have_to_pass(tmp_path: Path, check: str, tests: str, status: int) -> None:
    # The tests end last, as they do.
    with started(tmp_path, check, f"import time; time.sleep(0.5); {tests}") as process:
        said, _ = process.communicate()
    assert process.returncode == status
    assert ("tests" in said) == (status != 7)
    assert said.endswith("found nothing\n" if check is _PASSES else "found 7\n")


def test_what_the_check_says_comes_behind_the_tests(tmp_path: Path) -> None:
    slowly = "import time\nfor part in range(4): print(part, flush=True); time.sleep(0.1)"
    with started(tmp_path, "print('early', flush=True); print('late')", slowly) as process:
        said, _ = process.communicate()
    assert said.split() == ["0", "1", "2", "3", "early", "late"]


def test_the_tests_end_with_a_check_that_fails(tmp_path: Path) -> None:
    wait = "import pathlib\nwhile not pathlib.Path('tests').exists(): pass\n"
    with started(tmp_path, wait + _FAILS, goes_on("tests")) as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said.split() == ["tests", "interrupted", "found", "7"]


def test_a_check_that_ends_with_the_tests_says_nothing_of_that(tmp_path: Path) -> None:
    check = "import pathlib, time; pathlib.Path('check').touch(); time.sleep(60)"
    wait = "import pathlib\nwhile not pathlib.Path('check').exists(): pass\n"
    with started(tmp_path, check, wait + _FAILS, stderr=subprocess.STDOUT) as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said == "found 7\n"


def interrupted(process: subprocess.Popen[str], _: int) -> None:
    process.send_signal(signal.SIGINT)


def terminated(process: subprocess.Popen[str], _: int) -> None:
    process.send_signal(signal.SIGTERM)


def typed(_: subprocess.Popen[str], terminal: int) -> None:
    os.write(terminal, b"\x03")


@pytest.mark.parametrize(
    ("tell", "status"),
    [(typed, 128 + 2), (interrupted, 128 + 2), (terminated, 128 + 15)],
    ids=["Ctrl-C", "SIGINT", "SIGTERM"],
)
def test_both_are_ended_and_clean_up(
    tmp_path: Path, tell: Callable[[subprocess.Popen[str], int], None], status: int
) -> None:
    ours, theirs = pty.openpty()
    with started(
        tmp_path,
        goes_on("check"),
        goes_on("tests"),
        stdin=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        deadline = time.monotonic() + 60
        while {each.name for each in tmp_path.iterdir()} != {"check", "tests"}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        children = psutil.Process(process.pid).children()
        tell(process, ours)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == status
    # Each was told once: who is told twice leaves what it cleans up.
    assert said.splitlines() == ["tests interrupted", "check interrupted"]
    assert len(children) == 2
    assert not any(map(psutil.Process.is_running, children))
    os.close(ours)
    os.close(theirs)
