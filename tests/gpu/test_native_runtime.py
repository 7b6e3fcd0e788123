"""The native runtime: built once, and clear errors where it cannot be."""

import os
from pathlib import Path

import pytest
import tvm_ffi

from odtc.backends.native.build import RUNTIMES, built, load_runtime
from odtc.core.errors import BuildError, DeviceError
from odtc.runtime_rpc import session as sessions
from odtc.runtime_rpc.session import LocalSession, is_out_of_memory

RUNTIME = RUNTIMES["opencl"]


def test_it_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = built(RUNTIME)
    made = first.stat()
    assert first.parent == tmp_path / "odtc" / "native"
    assert built(RUNTIME).stat().st_mtime_ns == made.st_mtime_ns
    assert os.listdir(first.parent) == [first.name]


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError) as error:
        built(RUNTIME)
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
        built(RUNTIME)
    assert not list((tmp_path / "odtc" / "native").iterdir())


def test_devices_have_names() -> None:
    load_runtime("opencl")
    names = list(tvm_ffi.get_global_func("odtc.opencl.devices")())
    assert names
    assert all(names)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sessions._DEVICES, "opencl", ("opencl", 99))
    with pytest.raises(DeviceError) as error:
        LocalSession().on("opencl")
    assert str(error.value) == (
        "this machine has no opencl device\n"
        "  where: this machine\n"
        "  hint: install a driver for opencl; on Linux, `clinfo -l` lists OpenCL devices"
    )


def test_memory_that_the_device_does_not_have() -> None:
    import tvm

    load_runtime("opencl")
    text = r"a buffer of 1125899906842624 bytes: .*OpenCL error"
    with pytest.raises(RuntimeError, match=text) as caught:
        tvm.runtime.empty((1 << 50,), "uint8", tvm.device("opencl", 0))
    assert is_out_of_memory(caught.value)
