"""Devices that this machine does not have: memory of their own, one queue; and such that fail."""

from ast import literal_eval

import numpy as np
import pytest

from tests.native.vulkan.device import DEVICE, NO_MEMORY, UNSUPPORTED, Device, GpuError
from tests.native.vulkan.other_device import on_shim, passed, printed

FEW = (
    *("test_copies.py", "test_launches.py::test_writes_while_a_list_runs"),
    "test_launches.py::test_another_thread_writes_meanwhile",
)


@pytest.mark.parametrize("queues", ["2", "1"])
def test_memory_that_the_host_does_not_see(queues: str) -> None:
    """All goes through a staging buffer, by a second queue if there is one."""
    assert "passed" in passed(*FEW, DISCRETE="1", QUEUES=queues, **on_shim())


def test_many_bytes_of_memory_that_the_host_sees_but_does_not_cache() -> None:
    """They are copied where no buffer has needed a copy so far."""
    code = """
with Device() as gpu:
    print(gpu.read(gpu.buffer(np.arange(4096, dtype="int32")), 4096).sum())
"""
    assert printed(code, DISCRETE="2", **on_shim()).split() == [str(4096 * 4095 // 2)]


def test_a_lost_device() -> None:
    """Each call but waiting, freeing and closing fails, and none hangs."""
    code = """
with Device() as gpu:
    gpu.load(ADD)
    a, b = gpu.buffer(np.ones(64, "int32")), gpu.buffer(np.zeros(64, "int32"))
    made = gpu.prepare([Launch(0, (a, b), (0,), (1, 1, 1))])
    calls = [lambda: gpu.run(made), lambda: gpu.wait(made), lambda: gpu.read(b, 64), gpu.wait,
             lambda: gpu.write(a, np.ones(64, "int32")), lambda: gpu.fill(a, 0, 4, 0),
             lambda: gpu.allocate(10), lambda: gpu.put(a, np.ones(1, "int32"))]
    for turn in range(6):
        for number, call in enumerate(calls):
            try:
                call()
            except GpuError as error:
                print(number, error.code, error)
    gpu.free(a)
    gpu.free_list(made)
"""
    lines = printed(code, LOST_AFTER="2", **on_shim()).splitlines()
    assert len(lines) > 20
    for line in lines:
        _, code_of, text = line.split(" ", 2)
        assert int(code_of) == DEVICE
        assert text.endswith("the driver gave the device up, or it is gone (Vulkan error -4)")
    assert {line.split()[0] for line in lines} >= {"0", "1", "2", "4", "5", "6", "7"}


def test_no_memory_of_the_device() -> None:
    """What is seen of it is not more than a small buffer."""
    code = """
with Device() as gpu:
    small = gpu.buffer(np.arange(64, dtype="int32"))
    for _ in range(2):
        try:
            gpu.allocate(20 << 20)
        except GpuError as error:
            print(error.code, error)
    assert gpu.read(small, 64)[-1] == 63
"""
    line = f"{NO_MEMORY} a buffer of 20971520 bytes: out of device memory (Vulkan error -2)"
    assert printed(code, NO_MEMORY="20000000", **on_shim()).splitlines() == [line, line]


def test_what_the_device_lacks() -> None:
    code = """
import dataclasses
for number in (9, 10, 11, 22, 39, 61, 4433, 4448, 5345, 6022):
    words = (*ADD.words[:5], 2 << 16 | 17, number, *ADD.words[5:])
    with Device() as gpu:
        try:
            gpu.load(dataclasses.replace(ADD, words=words))
        except GpuError as error:
            print(error.code, error)
"""
    lines = printed(code, PLAIN="1", **on_shim()).splitlines()
    assert len(lines) == 9
    assert lines[0].startswith(
        f"{UNSUPPORTED} the kernel add needs arithmetic with float16, which "
    )
    assert lines[-3].startswith(
        f"{UNSUPPORTED} the kernel add needs buffers of 8-bit numbers, which "
    )
    matrices = "matrices of 16 x 16 float16 that subgroups multiply"
    assert lines[-1].startswith(f"{UNSUPPORTED} the kernel add needs {matrices}, which ")


# A kernel that may read an image: whether it does, and what it computes of the end of a buffer.
OF_IMAGES = """
most, dtype = int(sys.argv[1]), np.dtype(sys.argv[2])
count = min(most // dtype.itemsize, 1024)
double = DOUBLE if dtype == "float32" else DOUBLE_HALVES
with Device() as gpu:
    try:
        gpu.load(double, most_bytes=most)
        a = gpu.buffer(np.arange(count, dtype=dtype))
        b = gpu.buffer(np.zeros(64, "float32"))
        made = gpu.prepare([Launch(0, (a, b), (count - 64,), (1, 1, 1))])
        gpu.run(made)
        gpu.wait(made)
        images = gpu.figures(0, double).get("images", 0)
        print(int(images), count, int(gpu.read(b, 64, "float32").sum()))
        gpu.free(a)
        gpu.free_list(made)
    except GpuError as error:
        print(error.code, error)
"""


@pytest.mark.parametrize(("dtype", "texels"), [("float32", 16), ("float32", 64), ("float16", 16)])
@pytest.mark.parametrize(("beyond", "images"), [(0, 1), (1, 0), (1 << 20, 0)])
def test_images_that_reach_as_far_as_buffers(
    dtype: str, texels: int, beyond: int, images: int
) -> None:
    """What is larger than an image is read as a buffer, as any of its bytes may be needed."""
    most = texels * 4 * np.dtype(dtype).itemsize + beyond
    found = printed(OF_IMAGES, str(most), dtype, TEXELS=str(texels), **on_shim())
    read, count, total = map(int, found.split())
    assert read == images
    assert total == sum(range(count - 64, count)) * 2


def test_more_images_than_a_kernel_may_have() -> None:
    found = printed(OF_IMAGES, "256", "float32", SAMPLED="0", **on_shim())
    text = f"{UNSUPPORTED} the kernel double can read 1 buffers as images: llvmpipe"
    assert found.startswith(text)
    assert found.strip().endswith("allows 0")


# A kernel for subgroups of 8 items, which asks for their matrices if it is told to, but uses none.
IN_SUBGROUPS = """
import dataclasses
asked = (2 << 16 | 17, 6022) if sys.argv[1:] else ()
words = (*ADD.words[:5], *asked, *ADD.words[5:])
shader = dataclasses.replace(ADD, words=words, subgroup=8)
with Device() as gpu:
    try:
        gpu.load(shader)
        a, b = gpu.buffer(np.ones(64, "int32")), gpu.buffer(np.zeros(64, "int32"))
        made = gpu.prepare([Launch(0, (a, b), (0,), (1, 1, 1))])
        gpu.run(made)
        gpu.wait(made)
        print(gpu.read(b, 64).sum())
    except GpuError as error:
        print(error.code, error)
"""


def test_a_device_with_subgroups_that_fit() -> None:
    """Lavapipe has subgroups of 8."""
    assert printed(IN_SUBGROUPS, MATRICES="8", **on_shim()).split() == ["64"]


def test_a_device_with_other_subgroups() -> None:
    found = printed(IN_SUBGROUPS, "asks", MATRICES="16", **on_shim())
    text = f"{UNSUPPORTED} the kernel add is for subgroups of 8 items: llvmpipe"
    assert found.startswith(text)
    assert found.strip().endswith("has subgroups of 16 to 16")


def test_a_device_with_other_matrices() -> None:
    """Of so many products it says, but not of 16 terms."""
    found = printed(IN_SUBGROUPS, "asks", MATRICES="8", TERMS="8", **on_shim())
    assert found.startswith(f"{UNSUPPORTED} the kernel add needs matrices of 16 x 16 float16")


def test_a_number_that_no_device_has() -> None:
    with pytest.raises(
        GpuError, match=r"there is no Vulkan device 7: this machine has [1-9]"
    ) as error:
        Device(7)
    assert error.value.code == DEVICE


def test_no_driver() -> None:
    code = """
try:
    Device()
except GpuError as error:
    print(error.code, error)
"""
    missing = "/nonexistent.json"
    found = printed(code, VK_ICD_FILENAMES=missing, VK_DRIVER_FILES=missing)
    assert found.strip() == f"{DEVICE} no driver of Vulkan was found"


def test_a_driver_stays_once_it_was_opened() -> None:
    """Opened again for each trainer, NVIDIA's fails after some thirty."""
    code = """
def mapped():
    with open("/proc/self/maps") as maps:
        return "libvulkan_lvp" in maps.read()

print(mapped())
for _ in range(2):
    with Device():
        pass
    print(mapped())
"""
    assert printed(code).split() == ["False", "True", "True"]


def test_statistics_of_pipelines() -> None:
    """Lavapipe has none: the shim says them, by the driver's names."""
    code = """
with Device() as gpu:
    gpu.load(SCALE, ADD)
    print(gpu.figures(1, ADD))
    a, b = gpu.buffer(np.ones(64, "int32")), gpu.buffer(np.zeros(64, "int32"))
    made = gpu.prepare([Launch(1, (a, b), (0,), (1, 1, 1))])
    gpu.run(made)
    gpu.wait(made)
"""
    there = {"items at once": 64.0, "Register Count": 40.0, "Spilled": -1.0}
    there |= {"Occupancy": 0.5, "Is Cached": 1.0}
    assert literal_eval(printed(code, STATISTICS="1", **on_shim())) == {"shared bytes": 0.0} | there
    assert literal_eval(printed(code)) == {"shared bytes": 0.0}
