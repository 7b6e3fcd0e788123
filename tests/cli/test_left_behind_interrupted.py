"""Ctrl-C between any two steps of making and removing what is temporary: the end removes it."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from odtc.cli.interrupts import ENDS
from odtc.core.disk import left_behind
from odtc.core.disk.files import atomic_write
from odtc.core.disk.left_behind import remove_all, temporary_folder


def a_folder(here: Path) -> None:
    with temporary_folder(here) as folder:
        (folder / "step.so").write_text("a library")


def a_file(here: Path) -> None:
    with atomic_write(here / "target") as temporary:
        temporary.write_text("whole")


@contextmanager
def interrupted_at(number: int, steps: list[int]) -> Iterator[None]:
    """A block that is interrupted at one of its instructions in the module; `steps` gets them."""

    def step(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps.append(frame.f_lasti)
            if len(steps) == number:
                raise KeyboardInterrupt
        return step

    def call(frame: FrameType, *_: Any) -> Any:
        return step if frame.f_code.co_filename == left_behind.__file__ else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("work", [a_folder, a_file])
def test_an_interrupt_between_any_two_steps_leaves_nothing(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # What this process has beside, as artifacts of other tests, stays.
    monkeypatch.setattr(left_behind, "_folders", {})
    monkeypatch.setattr(left_behind, "_files", set())
    left_behind._machine()
    for number in itertools.count(1):
        steps: list[int] = []
        with suppress(KeyboardInterrupt), interrupted_at(number, steps):
            work(tmp_path)
        remove_all()
        left = {path.name for path in tmp_path.iterdir()} - {"target"}
        assert not left, f"interrupted at step {number}"
        if len(steps) < number:
            assert number > 100
            break
    assert not left_behind._folders.keys() | left_behind._files


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_the_folder_for_temporary_files_is_found_leaves_nothing(
    number: int, tmp_path: Path
):
    """Python tries a folder by a file in it; the signal comes when that is there."""
    code = f"""
import os, tempfile
from odtc.cli.main import main
remove = os.unlink
def unlink(path, *args, **named):
    os.kill(os.getpid(), {int(number)})
    remove(path, *args, **named)
os.unlink = unlink
main(["--version"])
"""
    own = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=own)
    assert done.returncode == -number
    assert not list(tmp_path.iterdir())
