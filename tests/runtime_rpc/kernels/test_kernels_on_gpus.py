"""Kernels of GPUs by themselves, as they are measured: here, and by odtc-device."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T  # noqa: N812

import odtc
from odtc.autoschedule.tuning.build import KernelLibrary
from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput, measure
from odtc.autoschedule.tuning.running import KernelBench
from odtc.backends.kernels.common import parsed
from odtc.backends.program.lines import Operand, Region
from odtc.core.errors import DeviceError, UnsupportedError
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.session import Session
from tests.gpu.on_device import KINDS, library_of
from tests.runtime_rpc.own_server import NATIVE, serving

# pyright: reportInvalidTypeForm=false

COUNT = 1 << 16
SPEC = TensorSpec("", (COUNT,))
X = np.random.default_rng(0).standard_normal(COUNT, np.float32)
CONFIG = MeasureConfig(least=2, most=2)


def scaled(factor: float, items: int = 256) -> tvm.tirx.PrimFunc:
    """A kernel that multiplies by a factor, in groups of so many items."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(x: T.Buffer((COUNT,), "float32"), y: T.Buffer((COUNT,), "float32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        group = T.launch_thread("blockIdx.x", COUNT // items)
        item = T.launch_thread("threadIdx.x", items)
        y[group * items + item] = x[group * items + item] * T.float32(factor)

    return main


@pytest.fixture(scope="module", params=["here", "there"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    if request.param == "here":
        yield LocalSession()
        return
    with serving(tmp_path_factory.mktemp("served") / "sessions", server=NATIVE) as url:
        session = odtc.connect(url)
        yield session
        session.close()


def library(kind: str, folder: Path, factor: float, items: int = 256) -> KernelLibrary:
    program, path = library_of(scaled(factor, items), kind, [SPEC], folder)
    operands = (Operand(r, 0, 0, "float32", (COUNT,)) for r in (Region.ARGUMENT, Region.RESULT))
    return KernelLibrary(path, tuple(operands), program)


def sub(folder: Path, name: str) -> Path:
    (made := folder / name).mkdir()
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_its_result_and_its_times(kind: str, place: Session, tmp_path: Path) -> None:
    made = library(kind, tmp_path, 3.0)
    assert made.program
    with (
        kernels_on(place.on(kind), {"argument0": X}) as opened,
        opened(made.program, made.path, SPEC) as kernel,
    ):
        np.testing.assert_array_equal(kernel.result(), X * np.float32(3))
        times = kernel.seconds(5)
        assert len(times) == 5
        assert all(0 < each < 5 for each in times)
        np.testing.assert_array_equal(kernel.result(), X * np.float32(3))


@pytest.mark.parametrize("kind", KINDS)
def test_each_choice_has_times_or_a_reason(kind: str, place: Session, tmp_path: Path) -> None:
    usual, sound, wrong, broken = (
        library(kind, sub(tmp_path, name), factor, items)
        for name, factor, items in (
            ("usual", 2.0, 256),
            ("sound", 2.0, 64),
            ("wrong", 3.0, 256),
            ("broken", 2.0, 256),
        )
    )
    broken.path.write_bytes(b"no library")
    session = place.on(kind)
    bench = KernelBench(session, lambda arguments: kernels_on(session, arguments))
    inputs = (((COUNT,), "float32"),)

    def measured(*others: KernelLibrary) -> list:
        return measure(bench, MeasureInput(usual, others, inputs), CONFIG)

    first, failed, unread, last = measured(sound, wrong, broken, sound)
    assert "a value is wrong by 0.5 of the largest one" in failed.reason
    assert unread.reason
    for each in (first, last):
        assert not each.reason
        assert len(each.seconds) == len(each.usual) == 2


def test_nothing_stays_of_what_is_measured(tmp_path: Path) -> None:
    """Files of a session that measures for hours, and what the driver compiles for it."""
    made = library("opencl", tmp_path, 2.0)
    assert made.program
    sessions = tmp_path / "sessions"
    with serving(sessions, server=NATIVE) as url:
        session = odtc.connect(url).on("opencl")
        with kernels_on(session, {"argument0": X}) as opened:
            for _ in range(2):
                with opened(made.program, made.path, SPEC) as kernel:
                    assert kernel.result()[0] == 2 * X[0]
            left = [path.name for path in sessions.rglob("*") if path.is_file()]
            assert [name for name in left if not name.startswith(".")] == [
                name for name in left if name.endswith("-arguments")
            ]
        assert not any("-arguments" in path.name for path in sessions.rglob("*"))
        assert not [*(sessions / "gpu-programs").glob("*")]
        session.close()


def test_the_gpu_of_a_session(place: Session) -> None:
    for kind in KINDS:
        found = place.on(kind).gpu()
        assert found == LocalSession(kind=kind).gpu()
        assert found.name
        assert found.driver


def test_more_memory_than_there_is_is_told(place: Session, tmp_path: Path) -> None:
    """Of the program alone: the session goes on. Kernels of lavapipe use 128 MiB of a buffer."""
    made = library("vulkan", tmp_path, 2.0)
    assert made.program
    large = np.zeros((129 << 20) // 4, np.float32)
    session = place.on("vulkan")
    with (
        kernels_on(session, {"argument0": large}) as opened,
        pytest.raises(UnsupportedError, match="argument0"),
        opened(made.program, made.path, SPEC),
    ):
        pass
    assert session.gpu()


def test_a_machine_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        session = odtc.connect(url).on("opencl")
        with pytest.raises(DeviceError, match="there is no OpenCL device 0: this machine has 0"):
            session.gpu()
        session.close()
