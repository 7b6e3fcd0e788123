"""Buffers of Vulkan: copies of all sizes, fills, and memory that a device does not have."""

import numpy as np
import pytest

from tests.native.vulkan.device import NO_MEMORY, Device, GpuError


@pytest.mark.parametrize("size", [1, 3, 1000, (1 << 20) + 7, (9 << 20) + 5])
def test_writes_and_reads(size: int) -> None:
    """Of all sizes: those that are cut from a piece, and those beyond half a staging buffer."""
    given = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    with Device() as gpu:
        buffers = [gpu.buffer(given), gpu.allocate(size)]
        gpu.copy(buffers[1], 0, buffers[0], 0, size)
        np.testing.assert_array_equal(gpu.read(buffers[1], size, "uint8"), given)
        first, last = size // 3, size - size // 3
        gpu.write(buffers[0], given[first:last][::-1].copy(), first)
        expected = given.copy()
        expected[first:last] = given[first:last][::-1]
        np.testing.assert_array_equal(gpu.read(buffers[0], size, "uint8"), expected)
        part = gpu.read(buffers[0], last - first, "uint8", first)
        np.testing.assert_array_equal(part, expected[first:last])


def test_buffers_that_come_and_go() -> None:
    """Small ones are cut from one piece, which is used anew only when all of them are freed."""
    with Device() as gpu:
        kept, first = gpu.buffer(np.arange(64, dtype="int32")), gpu.allocate(256)
        gpu.free(first)
        for number in range(10):
            other = gpu.buffer(np.full(64, number, "int32"))
            np.testing.assert_array_equal(gpu.read(other, 64), np.full(64, number))
            gpu.free(other)
        np.testing.assert_array_equal(gpu.read(kept, 64), np.arange(64))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1023])
def test_fills(size: int) -> None:
    """Bytes behind the last whole word, too, and none behind these."""
    given = np.arange(2000, dtype="uint32").astype("uint8")
    with Device() as gpu:
        buffer = gpu.buffer(given)
        gpu.fill(buffer, 8, size, 0x04030201)
        given[8 : 8 + size] = np.resize([1, 2, 3, 4], size)
        np.testing.assert_array_equal(gpu.read(buffer, 2000, "uint8"), given)


def test_many_small_commands() -> None:
    """More than a batch has room for, each after those before it."""
    with Device() as gpu:
        buffer, other = gpu.allocate(400), gpu.allocate(400)
        taken = [np.zeros(1, "int32") for _ in range(200)]
        for number, found in enumerate(taken):
            gpu.fill(buffer, 0, 400, 0)
            gpu.put(buffer, np.array([number], "int32"), 4)
            gpu.copy(other, 8, buffer, 4, 4)
            gpu.take(other, found, 8)
        gpu.wait()
        assert [int(found[0]) for found in taken] == list(range(200))


def test_memory_that_is_freed_is_used_again() -> None:
    """Five times as much as the device has."""
    with Device() as gpu:
        count = 5 * gpu.memory // (100 << 20)
        for number in range(count):
            large, small = gpu.allocate(100 << 20), gpu.allocate(1000)
            gpu.fill(small, 0, 1000, number)
            gpu.free(large)
            assert gpu.read(small, 250)[-1] == number
            gpu.free(small)


def test_a_buffer_beyond_what_a_kernel_can_use() -> None:
    with Device() as gpu:
        text = (
            f"a buffer of {gpu.largest + 1} bytes: a kernel on this device can use {gpu.largest:,} "
        )
        with pytest.raises(GpuError, match=text) as error:
            gpu.allocate(gpu.largest + 1)
        assert error.value.code == NO_MEMORY


def test_closing_gives_back_what_is_left() -> None:
    for _ in range(30):
        with Device() as gpu:
            gpu.fill(gpu.allocate(100 << 20), 0, 100 << 20, 1)
