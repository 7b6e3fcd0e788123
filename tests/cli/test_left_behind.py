"""Files of killed processes: the next process removes them, and none that are still in use."""

import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from odtc.core.disk import left_behind
from odtc.core.disk.files import atomic_write, check_writable
from odtc.core.disk.left_behind import LOCK, new_folder, remove_folder, temporary_folder

# Has a folder and a temporary file beside `target`, says so, and waits.
_OWNER = """
import sys, time
from pathlib import Path
from odtc.core.disk.files import atomic_write
from odtc.core.disk.left_behind import new_folder
folder = new_folder()
(folder / "step.so").write_text("a library")
(folder / "deep").mkdir()
(folder / "deep" / "file").write_text("more")
with atomic_write("target") as temporary:
    temporary.write_text("half")
    print(folder.name, temporary.name, flush=True)
    time.sleep(600)
"""
_NEXT = """
from odtc.core.disk.files import check_writable
from odtc.core.disk.left_behind import temporary_folder
check_writable("target")
with temporary_folder():
    pass
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and for temporary files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    forget()
    return tmp_path


def forget() -> None:
    """Lets this process look for what others left once more."""
    left_behind._remove_folders.cache_clear()
    left_behind._remove_files.cache_clear()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def owner(here: Path) -> Iterator[tuple[subprocess.Popen, set[str]]]:
    """A process that has a folder and a file, and their names."""
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE) as process:
        assert process.stdout
        made = set(process.stdout.readline().decode().split())
        assert made == names(here)
        yield process, made
        process.kill()


def test_what_a_killed_process_left_goes_with_the_next_start(owner, here: Path):
    process, made = owner
    subprocess.run([sys.executable, "-c", _NEXT], check=True)
    # It is alive.
    assert names(here) == made
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(here) == made
    subprocess.run([sys.executable, "-c", _NEXT], check=True)
    assert not names(here)


def test_what_is_not_known_as_its_own_is_never_touched(here: Path):
    machine = left_behind._machine()
    others = [f"odtc-{'0' * 6}-abcdefgh", "odtc-abcdefgh", f"odtc-{machine}-longer-than-ours"]
    for name in others:
        (here / name).mkdir()
        (here / name / LOCK).touch()
    files = [f".target.{'0' * 6}-abcdefgh", ".target.abcdefgh", f".other.{machine}-abcdefgh"]
    for name in files:
        (here / name).touch()
    # A link under such a name leads elsewhere.
    (here / "precious").mkdir()
    (here / f"odtc-{machine}-_a_link_").symlink_to("precious")
    (here / f".target.{machine}-_a_link_").symlink_to("precious")
    before = names(here)
    check_writable("target")
    with temporary_folder():
        pass
    assert names(here) == before


def test_a_folder_without_a_lock_goes_if_it_is_empty(here: Path):
    machine = left_behind._machine()
    for name in ("_empty__", "_filled_"):
        (here / f"odtc-{machine}-{name}").mkdir()
    (here / f"odtc-{machine}-_filled_" / "file").touch()
    with temporary_folder():
        pass
    assert names(here) == {f"odtc-{machine}-_filled_"}


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(here: Path, monkeypatch):
    """Another process may come between the folder, its lock file, and the lock."""
    real_open, real_lock, doings = os.open, fcntl.flock, []

    def first_gone(path, flags, mode=0o777, *, dir_fd=None):
        if Path(path).name == LOCK and not doings:
            doings.append("no folder")
            Path(path).parent.rmdir()
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def then_gone(lock: int, how: int) -> None:
        real_lock(lock, how)
        if doings == ["no folder"]:
            doings.append("no lock file")
            left_behind._remove_tree(next(here.iterdir()))

    monkeypatch.setattr(os, "open", first_gone)
    monkeypatch.setattr(fcntl, "flock", then_gone)
    folder = new_folder()
    assert doings == ["no folder", "no lock file"]
    assert names(here) == {folder.name}
    assert names(folder) == {LOCK}
    remove_folder(folder)
    assert not names(here)


def test_a_folder_that_is_written_into_while_it_is_removed_goes_with_the_next_start(
    here: Path, monkeypatch
):
    """A linker outlives the process that started it for a moment."""
    folder = here / f"odtc-{left_behind._machine()}-abcdefgh"
    folder.mkdir()
    (folder / LOCK).touch()
    (folder / "step.o").touch()
    real, late = os.unlink, itertools.count()

    def written(path, *, dir_fd=None):
        real(path, dir_fd=dir_fd)
        (folder / f"late{next(late)}").touch()

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", written)
        left_behind._remove_folders(here, f"odtc-{left_behind._machine()}-")
    assert folder.exists()
    forget()
    with temporary_folder():
        pass
    assert not names(here)


def test_where_nothing_can_be_locked_all_stays(here: Path, monkeypatch):
    def no_locks(lock: int, how: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    left = f"odtc-{left_behind._machine()}-abcdefgh"
    (here / left).mkdir()
    (here / left / LOCK).touch()
    with temporary_folder() as folder:
        assert names(here) == {left, folder.name}
    with atomic_write("target") as temporary:
        temporary.write_text("whole")
    assert names(here) == {left, "target"}


def test_a_forked_process_leaves_its_parents_folder_alone(here: Path):
    with temporary_folder() as folder:
        pid = os.fork()
        if not pid:
            remove_folder(folder)
            os._exit(0)
        os.waitpid(pid, 0)
        assert folder.exists()


def test_a_target_with_the_longest_name_can_be_written(here: Path):
    target = here / ("ü" * 127)
    with atomic_write(target) as temporary:
        temporary.write_text("whole")
    assert target.read_text() == "whole"


def test_many_at_once_leave_one_another_alone(here: Path):
    """All start at one time, so that some look for what is left while others make folders."""

    def work() -> None:
        for _ in range(200):
            forget()
            with temporary_folder() as folder, atomic_write("target") as temporary:
                assert folder.is_dir()
                temporary.write_text("whole")

    failed: list[BaseException] = []

    def noted() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=noted) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert names(here) == {"target"}
