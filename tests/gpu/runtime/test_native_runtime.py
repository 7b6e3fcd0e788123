"""The native runtime: built once, and clear errors where it cannot be."""

from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi

from odtc.backends.native import build
from odtc.backends.native.build import RUNTIMES, load_runtime, runtime_library
from odtc.core.errors import BuildError, DeviceError
from odtc.core.process.native_library import library_store
from odtc.runtime_rpc.guards.failures import is_out_of_memory
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.session import DEVICES

EVERY_KIND = pytest.mark.parametrize("kind", RUNTIMES)


@EVERY_KIND
def test_it_is_built_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = runtime_library(RUNTIMES[kind])

    def again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(build, "compile_runtime", again)
    assert runtime_library(RUNTIMES[kind]) == first
    assert library_store().size().entries == 1


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError) as error:
        runtime_library(RUNTIMES["opencl"])
    assert str(error.value) == (
        "no C++ compiler was found for the opencl runtime\n"
        "  hint: run `apt-get install g++ ocl-icd-opencl-dev`, or name one in CXX"
    )


def test_a_compiler_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "g++ -include /nonexistent.h")
    with pytest.raises(BuildError, match="nonexistent"):
        runtime_library(RUNTIMES["opencl"])
    assert library_store().size().entries == 0


@EVERY_KIND
def test_devices_have_names(kind: str) -> None:
    load_runtime(kind)
    names = list(tvm_ffi.get_global_func(f"odtc.{kind}.devices")())
    assert names
    assert all(names)


@pytest.mark.parametrize(
    ("kind", "lister"), [("opencl", "clinfo -l"), ("vulkan", "vulkaninfo --summary")]
)
def test_no_device(kind: str, lister: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICES, kind, (kind, 99))
    with pytest.raises(DeviceError) as error:
        LocalSession().on(kind)
    assert str(error.value) == (
        f"this machine has no {kind} device\n"
        "  where: this machine\n"
        f"  hint: install a driver for {kind}; on Linux, `{lister}` lists its devices"
    )


def test_memory_that_the_device_does_not_have() -> None:
    import tvm

    load_runtime("opencl")
    text = r"a buffer of 1125899906842624 bytes: .*OpenCL error"
    with pytest.raises(RuntimeError, match=text) as caught:
        tvm.runtime.empty((1 << 50,), "uint8", tvm.device("opencl", 0))
    assert is_out_of_memory(caught.value)


@EVERY_KIND
def test_parts_are_copied_from_and_to_where_they_lie(kind: str) -> None:
    load_runtime(kind)
    device = tvm.device(kind, 0)
    source = tvm.runtime.tensor(np.arange(64, dtype=np.float32), device)
    target = tvm.runtime.tensor(np.zeros(64, np.float32), device)
    read = source._create_view((8,), "float32", relative_byte_offset=4 * 16)
    written = target._create_view((8,), "float32", relative_byte_offset=4 * 40)
    read.copyto(written)
    expected = np.zeros(64, np.float32)
    expected[40:48] = np.arange(16, 24)
    np.testing.assert_array_equal(target.numpy(), expected)
    np.testing.assert_array_equal(written.numpy(), expected[40:48])
