"""What a driver has compiled is kept for the next time; a damaged file is none."""

from pathlib import Path

import numpy as np
import pytest

from tests.native.vulkan.device import Device, Launch
from tests.native.vulkan.kernels import ADD, GROUP, SCALE


def run(folder: Path, *kernels: object) -> None:
    """Loads kernels, and runs the last one."""
    with Device(folder=folder) as gpu:
        gpu.load(*kernels)  # type: ignore[arg-type]
        one, total = (gpu.buffer(np.full(GROUP, n, "int32")) for n in (1, 2))
        gpu.run(gpu.prepare([Launch(len(kernels) - 1, (one, total), (0,), (1, 1, 1))]))
        np.testing.assert_array_equal(gpu.read(total, GROUP), np.full(GROUP, 3))


def test_a_file_for_each_set_of_kernels(tmp_path: Path) -> None:
    run(tmp_path, ADD)
    (file,) = tmp_path.iterdir()
    first = file.stat()
    assert file.name.startswith("vulkan-")
    assert first.st_size > 32
    run(tmp_path, ADD)
    assert file.stat().st_mtime_ns == first.st_mtime_ns
    assert list(tmp_path.iterdir()) == [file]
    run(tmp_path, SCALE, ADD)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "long"])
def test_a_damaged_file_is_written_anew(damage: str, tmp_path: Path) -> None:
    run(tmp_path, ADD)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    damaged = {"cut": whole[:-1], "changed": changed, "empty": b"", "long": whole + b"\0"}
    file.write_bytes(damaged[damage])
    run(tmp_path, ADD)
    assert file.read_bytes() == whole


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    run(tmp_path / "nowhere", ADD)
    assert not list(tmp_path.iterdir())
