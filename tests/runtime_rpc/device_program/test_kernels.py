"""odtc-device and TVM's own client: artifacts that it runs; kernels that it calls and times."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import tvm
from tvm import rpc, te

import odtc
from odtc.core.artifact.bundle import LIBRARY, PARAMETERS, PROGRAM
from tests.needs import needs_two_cores
from tests.numeric.mlp import batches, mlp_artifact
from tests.runtime_rpc.device_program.kernel_libraries import COUNT, library_of
from tests.runtime_rpc.device_program.test_protocol import offered
from tests.runtime_rpc.own_server import NATIVE, SANITIZED, serving


@pytest.fixture(scope="module", params=[NATIVE, SANITIZED])
def url(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=request.param) as running:
        yield running


@pytest.fixture
def session(url: str) -> Iterator[rpc.RPCSession]:
    """TVM's own, with nothing of odtc's between."""
    (host, port), match = offered(url)
    found = rpc.connect(host, port, match)
    yield found
    found._sess.get_function("CloseRPCConnection")()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library_of(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def module(session: rpc.RPCSession, library: Path) -> tvm.runtime.Module:
    session.upload(str(library))
    return session.load_module(library.name)


def floats(session: rpc.RPCSession, count: int = COUNT) -> tuple[np.ndarray, Any, Any]:
    values = np.random.default_rng(0).standard_normal(count, np.float32)
    there = tvm.runtime.tensor(values, session.cpu())
    return values, there, tvm.runtime.empty((count,), "float32", session.cpu())


def test_an_artifact_takes_steps(session: rpc.RPCSession, tmp_path: Path) -> None:
    mlp_artifact(tmp_path, odtc.SGD()).save(path := tmp_path / "a.odtc")
    with ZipFile(path) as members:
        for name in (PROGRAM, PARAMETERS, LIBRARY):
            session.upload(bytearray(members.read(name)), name)
    call = {
        each: session.get_function(f"odtc.program.{each}")
        for each in ("open", "use_cores", "take_steps", "close")
    }
    number = call["open"](PROGRAM, PARAMETERS, LIBRARY, "", 0, "")
    call["use_cores"](number, "0", 0)
    here, data = odtc.load(path).trainer(threads=1), batches(3)
    expected = [here.step(x, y, 0.05) for x, y in data]
    rates = np.full(3, 0.05, np.float32).tobytes()
    fed = b"".join(x.tobytes() + y.astype(np.int32).tobytes() for x, y in data)
    answer = bytes(call["take_steps"](number, 0, bytearray(rates), bytearray(fed)))
    assert np.frombuffer(answer, "<u4", 2).tolist() == [3, 0]
    assert np.frombuffer(answer, "<f8", 3, 8).tolist() == expected
    call["close"](number)


def test_a_kernel_of_an_artifact_is_called_by_its_name(
    session: rpc.RPCSession, tmp_path: Path
) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    kernel = artifact.memory.plan.calls[0]
    session.upload(str(artifact._bundle.library), "step.so")
    module = session.load_module("step.so")
    assert module[kernel]
    with pytest.raises(RuntimeError, match="TVM's virtual machine does not run here"):
        tvm.relax.VirtualMachine(module, session.cpu())


def test_a_kernel_computes(session: rpc.RPCSession, module: tvm.runtime.Module) -> None:
    values, there, result = floats(session)
    module["kernel"](there, result)
    np.testing.assert_array_equal(result.numpy(), 2 * values)
    module["add"](result, 3, 0.5)
    assert result.numpy()[0] == np.float32(2 * values[0] + 3.5)


def test_a_kernel_is_timed_as_tvm_does(session: rpc.RPCSession, module: tvm.runtime.Module) -> None:
    values, there, result = floats(session)
    clock = module.time_evaluator("kernel", session.cpu(), number=3, repeat=5)
    found = clock(there, result)
    assert len(found.results) == 5
    assert 0 < found.min <= found.median <= found.max
    np.testing.assert_array_equal(result.numpy(), 2 * values)
    longer = module.time_evaluator(
        "kernel",
        session.cpu(),
        number=1,
        repeat=2,
        min_repeat_ms=20,
        cooldown_interval_ms=5,
        repeats_to_cooldown=1,
        cache_flush_bytes=1 << 22,
    )
    assert all(0 < each < 0.01 for each in longer(there, result).results)


def test_emptied_caches_are_no_part_of_a_time(
    session: rpc.RPCSession, module: tvm.runtime.Module
) -> None:
    _, there, result = floats(session, 16)
    cold = module.time_evaluator("kernel", session.cpu(), 1, 5, cache_flush_bytes=1 << 26)
    # To copy as much takes tens of milliseconds.
    assert cold(there, result).min < 0.002


@needs_two_cores()
def test_tasks_run_by_as_many_threads_as_there_are_to_be(
    session: rpc.RPCSession, module: tvm.runtime.Module
) -> None:
    noted = tvm.runtime.tensor(np.zeros(16, np.int32), session.cpu())
    module["tasks"](noted)
    assert noted.numpy().tolist() == [1, *[0] * 15]
    session.get_function("odtc.use_cores")("0,1", 0)
    module["tasks"](noted)
    assert noted.numpy().tolist() == [2, 2, *[0] * 14]


def test_a_file_that_takes_anothers_name_is_loaded(
    session: rpc.RPCSession, library: Path, tmp_path: Path
) -> None:
    values, there, result = floats(session)
    for factor, path in ((2, library), (5, library_of(tmp_path, "5"))):
        session.upload(str(path), "same.so")
        kernel = session.load_module("same.so")["kernel"]  # which keeps the module
        kernel(there, result)
        np.testing.assert_array_equal(result.numpy(), np.float32(factor) * values)
    assert "same.so" in str(session.get_function("tvm.rpc.server.workpath")("same.so"))
    assert session.download("same.so")


def test_modules_come_and_go(session: rpc.RPCSession, library: Path) -> None:
    """More than there are handles for at once, in a session that stays as it is."""
    session.upload(str(library), "kernels.so")
    _, there, result = floats(session)
    for _ in range(200):
        module = session.load_module("kernels.so")
        module["kernel"](there, result)
        module.time_evaluator("kernel", session.cpu())(there, result)


def test_what_is_wrong_with_a_library_is_said(
    session: rpc.RPCSession, module: tvm.runtime.Module
) -> None:
    session.upload(bytearray(b"no library"), "a.so")
    for name, says in (
        ("a.so", "a.so: the library cannot be loaded: .*"),
        ("b.so", "b.so: No such file"),
        ("../a.so", "not a valid file name in a session"),
    ):
        with pytest.raises(RuntimeError, match=says):
            session.load_module(name)
    with pytest.raises(AttributeError, match="has no function 'nothing'"):
        module["nothing"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"number": 0}, "number is from 1 to 2147483647"),
        ({"repeat": 0}, "repeat is from 1 to 65536"),
        ({"repeat": 65537}, "repeat is from 1 to 65536"),
        ({"repeats_to_cooldown": 0}, "repeats_to_cooldown is from 1"),
        ({"cache_flush_bytes": 1 << 31}, "cache_flush_bytes is from 0 to 1073741824"),
        ({"cooldown_interval_ms": -1}, "cooldown_interval_ms is from 0"),
        ({"f_preproc": "cache_flush"}, "calls no function before a kernel, such as cache_flush"),
        ({"func_name": "nothing"}, "the module has no kernel nothing"),
    ],
)
def test_what_no_time_can_be_taken_of_is_refused(
    session: rpc.RPCSession, module: tvm.runtime.Module, options: dict, says: str
) -> None:
    with pytest.raises(RuntimeError, match=says):
        module.time_evaluator(**{"func_name": "kernel", "dev": session.cpu(), **options})


def test_a_wrong_call_of_a_kernel_says_why(
    session: rpc.RPCSession, module: tvm.runtime.Module
) -> None:
    _, there, result = floats(session)
    for call, says in (
        (lambda: module["kernel"]("text", result), "argument 0 is neither a tensor nor a number"),
        (lambda: module["fails"](there), "the kernel fails failed"),
        (lambda: module["add"](there), "the kernel add failed"),
        (lambda: module.time_evaluator("fails", session.cpu())(there), "the kernel fails failed"),
        (lambda: session.get_function("odtc.use_cores")("x", 0), "x are not numbers of cores"),
        (lambda: session.get_function("odtc.use_cores")("0,1000", 0), "run on core 1000"),
    ):
        with pytest.raises(RuntimeError, match=says):
            call()
    module["kernel"](there, result)


def test_a_tensor_begins_where_kernels_count_on_it(
    session: rpc.RPCSession, module: tvm.runtime.Module
) -> None:
    _, there, result = floats(session, 2 * COUNT)
    for argument in (0, 1):
        given = [there._create_view((COUNT,)), result._create_view((COUNT,))]
        given[argument] = there._create_view((COUNT,), relative_byte_offset=4)
        says = f"argument {argument} does not begin at a multiple of 64 bytes"
        with pytest.raises(RuntimeError, match=says):
            module["kernel"](*given)


def plain(folder: Path) -> Path:
    """Two kernels that TVM itself has compiled and linked, which check their arguments."""
    x = te.placeholder((COUNT,), name="x")
    y = te.compute((COUNT,), lambda n: 2 * x[n] + 1, name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    kernels = {"plain": schedule.mod["main"].with_attr("global_symbol", "plain")}
    schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    kernels["parallel"] = schedule.mod["main"].with_attr("global_symbol", "parallel")
    compiled = tvm.compile(tvm.IRModule(kernels), tvm.target.Target({"kind": "llvm"}))
    compiled.export_library(str(folder / "plain.so"))
    return folder / "plain.so"


@needs_two_cores()
def test_what_tvm_compiles_runs_and_says_why_it_does_not(
    session: rpc.RPCSession, tmp_path: Path
) -> None:
    session.upload(str(plain(tmp_path)))
    module = session.load_module("plain.so")
    session.get_function("odtc.use_cores")("0,1", 0)
    values, there, result = floats(session)
    for name in ("plain", "parallel"):
        module[name](there, result)
        np.testing.assert_array_equal(result.numpy(), 2 * values + 1)
        _, shorter, _ = floats(session, 10)
        with pytest.raises(RuntimeError, match=f"the kernel {name} failed: .*shape"):
            module[name](shorter, result)
        with pytest.raises(RuntimeError, match=f"the kernel {name} failed: .*[Ee]xpect"):
            module[name](there)
