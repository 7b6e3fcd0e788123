"""`odtc cache`, and the store behind it: whole entries or none, within its bytes."""

import hashlib
import json
import os
import pwd
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odtc.backends.objects.kernel_store import MOST_BYTES, kernel_store
from odtc.cli.main import main
from odtc.core.disk import content_store
from odtc.core.disk.content_store import ContentStore, Size, nothing_kept
from odtc.core.errors import ExitCode
from odtc.step_cache.store import step_store

# Writes and reads entries for ever, and says so for each that is whole.
WRITER = """
import hashlib, sys
from pathlib import Path
from odtc.core.disk.content_store import ContentStore
store = ContentStore(Path(sys.argv[1]), 1 << 30)
number = 0
while True:
    key = hashlib.sha256(str(number % 50).encode()).hexdigest()
    content = (key * 2000).encode()
    store.put(key, content)
    found = store.get(key)
    assert found is None or found == content
    print(number, flush=True)
    number += 1
"""


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store", 1 << 20)


def test_what_is_put_is_found(store: ContentStore) -> None:
    assert store.get(key_of(1)) is None
    store.put(key_of(1), b"one")
    store.put(key_of(1), b"one")
    assert store.get(key_of(1)) == b"one"
    assert store.get(key_of(2)) is None
    assert store.size().entries == 1
    assert store.clear().entries == 1
    assert store.get(key_of(1)) is None
    assert store.size() == Size(0, 0)


def test_it_stays_within_its_bytes_and_keeps_what_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_store, "_USED_SECONDS", 0)
    store = ContentStore(tmp_path / "store", 256 * 4000)
    used = key_of(0)
    others = (key for key in map(key_of, range(1, 10_000)) if key[:2] == used[:2])
    store.put(used, bytes(900))
    for age, key in zip(range(30, 0, -1), others, strict=False):
        store.put(key, bytes(900))
        path = store.folder / key[:2] / key[2:]
        if path.exists():
            used_at = time.time() - age
            os.utime(path, (used_at, used_at))
        assert store.get(used) == bytes(900)
        assert sum(entry.stat().st_size for entry in path.parent.iterdir()) <= 4000
    assert store.size().entries > 1


def test_where_work_is_measured_nothing_is_kept(store: ContentStore) -> None:
    store.put(key_of(1), b"one")
    with nothing_kept():
        store.put(key_of(2), b"two")
        assert store.get(key_of(1)) is None
    assert store.get(key_of(1)) == b"one"
    assert store.get(key_of(2)) is None


def test_what_has_no_room_is_not_kept(store: ContentStore) -> None:
    store.put(key_of(1), bytes(store.most_bytes // 256))
    assert store.size().entries == 0


def test_a_store_that_cannot_be_written_keeps_nothing(store: ContentStore) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        # As on a full disk, it is cut short.
        store.put(key_of(1), bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert store.get(key_of(1)) is None
    assert not [path for path in store.folder.rglob("*") if path.is_file()]


def test_processes_that_share_it_and_are_killed_leave_whole_entries(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    command = [sys.executable, "-c", WRITER, str(folder)]
    rng = random.Random(0)
    for _ in range(3):
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for writer in writers:
            assert writer.stdout
            writer.stdout.readline()
        time.sleep(rng.random() / 4)
        for writer in writers:
            writer.kill()
            writer.communicate()
            assert writer.returncode == -signal.SIGKILL
    store = ContentStore(folder, 1 << 30)
    store.put(key_of(99), b"")
    for number in range(50):
        assert store.get(key_of(number)) in (None, (key_of(number) * 2000).encode())
    # What was being written goes with the first start that writes, which here is a new process.
    subprocess.run([sys.executable, "-c", f"{PUT}", str(folder)], check=True)
    assert {path.parent.parent for path in folder.rglob("*") if path.is_file()} == {folder}


PUT = """
import sys
from pathlib import Path
from odtc.core.disk.content_store import ContentStore
ContentStore(Path(sys.argv[1]), 1 << 30).put("ab12", b"")
"""


def test_the_command_shows_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel_store().put(key_of(1), b"an object file")
    step_store().put(key_of(1), b"a step")
    step_store().put(key_of(2), b"a step")
    assert main(["cache", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kernels"] == {
        "folder": str(tmp_path / "odtc" / "kernels"),
        "entries": 1,
        "bytes": 32 + len("an object file"),
        "most_bytes": MOST_BYTES,
        "problem": None,
    }
    assert found["steps"]["folder"] == str(tmp_path / "odtc" / "steps")
    assert found["steps"]["entries"] == 2
    assert main(["cache", "--clear"]) == 0
    told = capsys.readouterr()
    assert "removed steps 2, kernels 1, outlines 0, libraries 0: " in told.err
    assert told.out.count("0, 0 B of 1.0 GiB") == 2
    assert told.out.count("0, 0 B of 64.0 MiB") == 2


def test_the_command_says_why_the_cache_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel_store().folder.mkdir(parents=True)
    kernel_store().folder.chmod(0o777)
    assert main(["cache"]) == 0
    assert "others can write to it" in capsys.readouterr().out


def test_what_others_could_have_written_is_not_read(store: ContentStore) -> None:
    store.put(key_of(1), b"one")
    store.folder.chmod(0o777)
    # As the next process sees it.
    assert ContentStore(store.folder, store.most_bytes).get(key_of(1)) is None


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_its_folders_are_the_users_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    store = ContentStore(tmp_path / "odtc" / "store", 1 << 20)
    before = os.umask(umask)
    try:
        store.put(key_of(1), b"one")
    finally:
        os.umask(before)
    folders = (store.folder.parent, store.folder, store.folder / key_of(1)[:2])
    assert [each.stat().st_mode & 0o777 for each in folders] == [0o700] * 3
    assert ContentStore(store.folder, store.most_bytes).get(key_of(1)) == b"one"


def test_a_store_that_others_could_put_another_for_is_not_read(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "odtc" / "store", 1 << 20)
    store.put(key_of(1), b"one")
    found = {}
    for mode in (0o700, 0o755, 0o770, 0o707, 0o1777):
        store.folder.parent.chmod(mode)
        found[mode] = ContentStore(store.folder, store.most_bytes).get(key_of(1)) is not None
    assert found == {0o700: True, 0o755: True, 0o770: False, 0o707: False, 0o1777: True}


def test_what_cannot_be_cleared_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel_store().put(key_of(1), b"an object file")
    place = kernel_store().folder / key_of(1)[:2]
    # A folder where a file should be; permissions do not hold back root.
    (place / "deep").mkdir()
    assert main(["cache", "--clear"]) == ExitCode.OUTPUT
    told = capsys.readouterr().err
    assert "cannot remove what is kept" in told
    assert str(place / "deep") in told
    assert "hint: " in told


def test_a_user_without_a_home_has_no_cache_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container runs as a number that no file of users knows."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    store = kernel_store()
    assert store.folder == Path("/nonexistent/.cache/odtc/kernels")
    assert store.get(key_of(1)) is None


def test_a_relative_cache_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert kernel_store().folder == Path.home() / ".cache" / "odtc" / "kernels"
