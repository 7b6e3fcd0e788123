"""Copies of files that memory holds as far as they are looked at."""

import resource
import signal
from pathlib import Path
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.core import coded
from odtc.core.disk import mapped_arrays
from odtc.core.disk.mapped_arrays import Copies, leave_pages
from odtc.frontend.graph import Graph
from odtc.frontend.normalize.unpack import unpack
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


def test_arrays_are_mapped_as_they_were() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "bytes": rng.integers(-128, 128, (3, 5), np.int8),
        "turned": rng.standard_normal((4, 6)).astype(np.float32).T,
        "nothing": np.zeros((0, 3), np.uint8),
        "four bits": rng.integers(-8, 8, (7, 2), np.int8).astype(ml_dtypes.int4),
    }
    with Copies() as copies:
        for name, array in arrays.items():
            copies.put(name, array)
        found = copies.mapped()
    for name, array in arrays.items():
        read = found[name].view(array.dtype).reshape(array.shape)
        np.testing.assert_array_equal(read.astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize("room", [True, False])
def test_constants_of_four_bits_are_unpacked_outside_of_memory(
    room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not room:
        monkeypatch.setattr(mapped_arrays.tempfile, "tempdir", "/nowhere")
    values = np.random.default_rng(1).integers(-8, 8, (512, 16384), np.int8)
    node = onnx.helper.make_node("DequantizeLinear", ["w", "scale"], ["y"])
    constants = {"w": values.astype(ml_dtypes.int4), "scale": np.float32(1)}
    graph = Graph(
        nodes=[node], inputs=(), parameters={}, constants=constants, outputs=["y"], opset=21
    )
    unpack(graph)
    found = graph.constants["w"]
    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.int8
    assert found.flags.writeable != room


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.integers(1, 40))
def test_codes_are_packed_in_parts_as_at_once(
    rows: int, columns: int, signed: bool, at_once: int
) -> None:
    low, high = (-8, 8) if signed else (0, 16)
    values = np.random.default_rng(rows * columns).integers(low, high, (rows, columns))
    values = values.astype(np.int8 if signed else np.uint8)
    with mock.patch.object(coded, "_AT_ONCE", at_once):
        parts = coded.packed(values)
    moved = (values + (8 if signed else 0)).astype(np.uint8)
    np.testing.assert_array_equal(parts, coded.paired(moved))
