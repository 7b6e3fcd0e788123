"""The native runtime for Vulkan: copies, order, what it watches, and faults."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.native.build import load_runtime
from odtc.runtime_rpc.guards.failures import is_out_of_memory
from tests.gpu.on_device import compiled

# pyright: reportInvalidTypeForm=false


@pytest.fixture(autouse=True)
def _loaded() -> None:
    load_runtime("vulkan")


@T.prim_func(s_tir=True)
def add_one(a: T.Buffer((1 << 10,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    block = T.launch_thread("blockIdx.x", 4)
    item = T.launch_thread("threadIdx.x", 256)
    a[block * 256 + item] = a[block * 256 + item] + T.float32(1)


@pytest.mark.parametrize("size", [0, 1, 3, 1000, (1 << 20) + 7, (70 << 20) + 5])
def test_copies(size: int) -> None:
    """Of all sizes: those that are pooled, and those beyond the staging buffer."""
    given = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    device = tvm.device("vulkan", 0)
    tensor = tvm.runtime.tensor(given, device)
    other = tvm.runtime.empty((size,), "uint8", device)
    tensor.copyto(other)
    np.testing.assert_array_equal(other.numpy(), given)


def test_commands_run_in_order() -> None:
    """More launches than batches hold, with copies between them."""
    library = compiled(add_one, "vulkan")
    device = tvm.device("vulkan", 0)
    tensor = tvm.runtime.tensor(np.zeros(1 << 10, "float32"), device)
    kept = []
    for number in range(600):
        library["main"](tensor)
        if number % 100 == 99:
            kept.append(tvm.runtime.empty((1 << 10,), "float32", device))
            tensor.copyto(kept[-1])
        if number == 300:
            tensor.copyfrom(np.full(1 << 10, 1000, "float32"))
    values = [each.numpy() for each in kept]
    for found, expected in zip(values, [100, 200, 300, 1099, 1199, 1299], strict=True):
        np.testing.assert_array_equal(found, np.full(1 << 10, expected))


def test_memory_that_is_freed_is_used_again_in_order() -> None:
    """A buffer may be freed while a kernel that reads it is queued."""
    library = compiled(add_one, "vulkan")
    device = tvm.device("vulkan", 0)
    for number in range(200):
        tensor = tvm.runtime.tensor(np.full(1 << 10, number, "float32"), device)
        library["main"](tensor)
        kept = tvm.runtime.empty((1 << 10,), "float32", device)
        tensor.copyto(kept)
        del tensor
        if number % 50 == 0:
            np.testing.assert_array_equal(kept.numpy(), np.full(1 << 10, number + 1))


def test_what_ran_is_watched() -> None:
    watch, take = (tvm_ffi.get_global_func(f"odtc.vulkan.{n}") for n in ("watch", "take_watched"))
    library = compiled(add_one, "vulkan")
    device = tvm.device("vulkan", 0)
    watch(True)
    try:
        tensor = tvm.runtime.tensor(np.zeros(1 << 10, "float32"), device)
        for _ in range(50):
            library["main"](tensor)
        tensor.numpy()
        lines = [line.split() for line in str(take()).splitlines()]
    finally:
        watch(False)
    assert [name for name, *_ in lines] == ["upload", *["main_kernel"] * 50, "download"]
    times = [(int(start), int(end)) for _, start, end in lines]
    assert all(start <= end for start, end in times)
    assert times == sorted(times)
    assert take() == ""


def test_more_groups_than_a_launch_has() -> None:
    """Vulkan promises 65,535 along an axis; the first is launched in parts."""
    groups = 200_000

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((groups,), "int32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", groups)
        T.launch_thread("threadIdx.x", 1)
        a[block] = block

    library = compiled(main, "vulkan")
    tensor = tvm.runtime.empty((groups,), "int32", tvm.device("vulkan", 0))
    library["main"](tensor)
    np.testing.assert_array_equal(tensor.numpy(), np.arange(groups))


def test_a_work_group_that_is_too_large() -> None:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1 << 20,), "int32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        item = T.launch_thread("threadIdx.x", 1 << 20)
        a[item] = item

    library = compiled(main, "vulkan")
    tensor = tvm.runtime.empty((1 << 20,), "int32", tvm.device("vulkan", 0))
    with pytest.raises(
        RuntimeError, match=r"main_kernel has work-groups of 1048576 x 1 x 1 items: "
    ):
        library["main"](tensor)


@pytest.mark.parametrize("size", [(1 << 31), 1 << 50])
def test_memory_that_the_device_does_not_have(size: int) -> None:
    text = rf"a buffer of {size} bytes: a kernel on this device can use [\d,]+ bytes of a buffer"
    with pytest.raises(RuntimeError, match=text) as caught:
        tvm.runtime.empty((size,), "uint8", tvm.device("vulkan", 0))
    assert is_out_of_memory(caught.value)


def run_apart(code: str, **environment: str) -> str:
    """The last line of what another process prints, or of how it fails."""
    code = "from odtc.backends.native.build import load_runtime\nload_runtime('vulkan')\n" + code
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return re.split(r"\n", (done.stdout + done.stderr).strip())[-1]


def test_no_driver() -> None:
    code = "import tvm; print(tvm.device('vulkan', 0).exist); tvm.device('vulkan', 0).sync()"
    last = run_apart(
        code, VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json"
    )
    assert last.endswith("there is no Vulkan device 0: this machine has 0")
