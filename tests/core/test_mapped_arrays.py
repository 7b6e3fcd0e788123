"""Copies of files that memory holds as far as they are looked at."""

import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from odtc.core.disk import mapped_arrays
from odtc.core.disk.mapped_arrays import Copies, leave_pages
from odtc.frontend.trained.quantise import Int4, rounded
from tests.native.test_resident import resident

SIZE = 64 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(7) + np.arange(SIZE // 4, dtype=np.uint32).tobytes() + b"end")
    return path


def mapped(file: Path, offset: int, length: int) -> np.ndarray | None:
    """A part behind another one; None where there is no room."""
    with Copies() as copies:
        copies.add("front", file, 0, 5)
        copies.add("part", file, offset, length)
        found = copies.mapped()
    assert not found or [*found["front"]] == [0] * 5
    return found.get("part")


def of_files() -> int:
    """Resident bytes of files, on a disk or in memory."""
    return resident("RssFile") + resident("RssShmem")


def test_pages_come_and_go(file: Path) -> None:
    part = mapped(file, 7, SIZE)
    assert part is not None
    found = part.view(np.uint32).reshape(-1, 4)
    # What becomes of the file is of no concern.
    file.write_bytes(b"")
    assert not found.flags.writeable
    assert found.flags.aligned
    before = resident("VmRSS")
    for _ in range(2):
        assert int(found.sum(dtype=np.uint64)) == (SIZE // 4) * (SIZE // 4 - 1) // 2
        assert resident("VmRSS") - before > SIZE * 0.9
        leave_pages([np.zeros(3), found[1:]])
        assert resident("VmRSS") - before < SIZE * 0.1


@pytest.mark.parametrize("axis", [0, 1])
def test_rounding_keeps_no_pages_of_floats(file: Path, axis: int) -> None:
    part = mapped(file, 7, SIZE)
    assert part is not None
    matrix = part.view(np.float32).reshape(-1, 1024)
    before = of_files()
    made = rounded(matrix, axis, Int4())
    assert made.codes.size == matrix.size // 2
    assert of_files() - before < SIZE * 0.1


def test_a_file_that_is_too_short_is_damaged(file: Path) -> None:
    with pytest.raises(ValueError, match="ends before byte"):
        mapped(file, 11, SIZE)


def test_where_there_is_no_folder_there_is_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_arrays.tempfile, "tempdir", "/nowhere")
    assert mapped(file, 7, SIZE) is None
    with pytest.raises(ValueError, match="ends before byte"):
        mapped(file, 11, SIZE)


def test_where_there_is_no_room_there_is_none(file: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, limits[1]))
    try:
        assert mapped(file, 7, SIZE) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
