"""The native runtime: built once, and clear errors where it cannot be."""

import os
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi

from odtc.backends.native.build import RUNTIMES, built, load_runtime
from odtc.core.errors import BuildError, DeviceError
from odtc.runtime_rpc import session as sessions
from odtc.runtime_rpc.failures import is_out_of_memory
from odtc.runtime_rpc.session import LocalSession

EVERY_KIND = pytest.mark.parametrize("kind", RUNTIMES)


@EVERY_KIND
def test_it_is_built_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runtime = RUNTIMES[kind]
    first = built(runtime)
    made = first.stat()
    assert first.parent == tmp_path / "odtc" / "native"
    assert built(runtime).stat().st_mtime_ns == made.st_mtime_ns
    assert os.listdir(first.parent) == [first.name]


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError) as error:
        built(RUNTIMES["opencl"])
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
        built(RUNTIMES["opencl"])
    assert not list((tmp_path / "odtc" / "native").iterdir())


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
    monkeypatch.setitem(sessions.DEVICES, kind, (kind, 99))
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
