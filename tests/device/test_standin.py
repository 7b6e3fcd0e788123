"""The phone's stand-in: it is a phone to every client, and it leaves nothing behind."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tvm
from tvm import rpc, te

from odtc.backends.objects.library import export_library
from odtc.backends.targets import parse_target
from odtc.core.errors import BuildError, DeviceError
from odtc.runtime_rpc.standin import root as root_module
from odtc.runtime_rpc.standin import tools
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from odtc.runtime_rpc.standin.systems import System
from odtc.runtime_rpc.tracker.greeting import own_versions
from tests.fast import fast_if

pytestmark = pytest.mark.device


def request(phone: EmulatedPhone, seconds: int = 60) -> rpc.RPCSession:
    """A session; an error, and no wait without end, where there is none."""
    tracker = rpc.connect_tracker("127.0.0.1", phone.tracker_port)
    tracker._sock.settimeout(10)
    return tracker.request(phone.key, max_retry=1, session_timeout=seconds)


def device_info(session: rpc.RPCSession) -> dict[str, Any]:
    return json.loads(session.get_function("odtc.device_info")())


def descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def listening_addresses() -> set[str]:
    addresses = set()
    for process in descendants():
        # The session of the test before may be about to end.
        with suppress(psutil.NoSuchProcess):
            connections = process.net_connections()
            addresses |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return addresses


def process_of(pid: int) -> psutil.Process:
    """The process that has this id in the phone, which counts its own."""
    (found,) = (process for process in descendants() if inner_pid(process) == pid)
    return found


def inner_pid(process: psutil.Process) -> int | None:
    status = Path(f"/proc/{process.pid}/status")
    with suppress(FileNotFoundError, ProcessLookupError):
        ids = re.search(r"^NSpid:(.*)$", status.read_text(), re.MULTILINE)
        if ids:
            return int(ids[1].split()[-1])
    return None


def add_library(folder: Path) -> Path:
    """A library for the phone, whose `main` adds 1 to 1024 floats."""
    target = parse_target("android-cpu")
    x = te.placeholder((1024,), name="x")
    y = te.compute((1024,), lambda i: x[i] + 1.0, name="y")
    function = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    path = folder / "add.so"
    export_library(tvm.compile(function, target=target.to_tvm()), path, target)
    return path


def test_it_says_what_it_is(phone: EmulatedPhone):
    info = device_info(request(phone))
    assert info.pop("pid") > 1
    assert info.pop("cpus") >= 1
    assert info.pop("files") == "", "only what is pushed has a hash"
    own = {name: own_versions()[name] for name in ("odtc", "sources", "abi")}
    assert info == {**own, "server": "native", "machine": "aarch64", "emulated": True}
    assert phone.url == f"rpc://127.0.0.1:{phone.tracker_port}/android"


def test_it_runs_a_cross_compiled_kernel(phone_with_tvm: EmulatedPhone, tmp_path: Path):
    session = request(phone_with_tvm)
    session.upload(str(add_library(tmp_path)))
    x = np.arange(1024, dtype="float32")
    there = tvm.runtime.tensor(x, session.cpu(0))
    result = tvm.runtime.tensor(np.zeros_like(x), session.cpu(0))
    session.load_module("add.so")["main"](there, result)
    np.testing.assert_array_equal(result.numpy(), x + 1)


def test_it_has_what_tuning_fills_its_inputs_with(phone_with_tvm: EmulatedPhone):
    session = request(phone_with_tvm)
    x = tvm.runtime.tensor(np.zeros(64, "float32"), session.cpu(0))
    session.get_function("tvm.contrib.random.random_fill_for_measure")(x)
    assert x.numpy().any()


def test_it_does_not_see_the_files_of_the_host(phone_with_tvm: EmulatedPhone, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    session = request(phone_with_tvm)
    load = session.get_function("ffi.Module.load_from_file.so")
    for path in (str(secret), f"/proc/1/root{secret}"):
        with pytest.raises(tvm.error.RPCError, match="No such file"):
            load(path, "so")


def test_it_listens_on_loopback_only(phone: EmulatedPhone):
    assert listening_addresses() == {"127.0.0.1"}


def test_it_outlives_a_session_that_crashes(phone: EmulatedPhone):
    session = request(phone)
    process_of(device_info(session)["pid"]).kill()
    with pytest.raises((tvm.error.RPCError, tvm.error.InternalError)):
        device_info(session)
    assert device_info(request(phone))["machine"] == "aarch64"


def test_it_outlives_a_session_that_takes_too_long(phone: EmulatedPhone):
    session = request(phone, seconds=1)
    time.sleep(2)
    with pytest.raises(tvm.error.RPCError, match="RPCSessionTimeoutError"):
        device_info(session)
    assert device_info(request(phone))["machine"] == "aarch64"


def test_an_upload_stays_in_the_sessions_folder(phone: EmulatedPhone, tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("new")
    session = request(phone)
    for name in ("/tmp/file", "../file", "a/../../file", "/proc/self/cwd/../file"):
        with pytest.raises(tvm.error.RPCError, match="is not a valid file name in a session"):
            session.upload(str(file), name)
    session.upload(str(file), "file")
    assert session.download("file") == b"new"


def test_stop_leaves_nothing():
    before = {process.pid for process in descendants()}
    phone = EmulatedPhone("another")
    with suppress(ZeroDivisionError), phone:
        assert device_info(request(phone))["machine"] == "aarch64"
        raise ZeroDivisionError
    assert {process.pid for process in descendants()} <= before
    assert "odtc-phone-" not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", phone.tracker_port), timeout=5)
    phone.stop()


@pytest.mark.parametrize(
    "number", fast_if(signal.SIGKILL.__eq__, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
)
def test_serve_ends_with_all_it_has_started(number: signal.Signals):
    command = [sys.executable, "-m", "odtc.runtime_rpc.standin", "serve", "--key", "served"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serve:
        assert serve.stdout
        line = serve.stdout.readline()
        assert re.fullmatch(r"rpc://127\.0\.0\.1:\d+/served\n", line)
        started = psutil.Process(serve.pid).children(recursive=True)
        assert len(started) >= 3
        serve.send_signal(number)
        assert serve.wait(120) == (-number if number == signal.SIGKILL else 0)
        assert serve.stdout.read() == ""
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_a_phone_that_ends_by_itself_is_an_error():
    with EmulatedPhone("mortal") as phone:
        psutil.Process(phone._server.pid).children()[0].kill()
        with pytest.raises(DeviceError, match="the phone has ended"):
            phone.wait()


def test_a_phone_that_does_not_start_shows_its_log(tmp_path: Path):
    before = {process.pid for process in descendants()}
    with pytest.raises(
        DeviceError, match=r"ended as it started; its log ends with\n +mount: .*proc"
    ):
        EmulatedPhone(system=lambda *_: System(tmp_path, ("/none",))).start()
    assert {process.pid for process in descendants()} <= before


def test_a_port_in_use_is_an_error(phone: EmulatedPhone):
    with pytest.raises(DeviceError, match="the tracker cannot listen: Address already in use"):
        EmulatedPhone(tracker_port=phone.tracker_port).start()


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "odtc" / "standin"


def replace_steps(monkeypatch: pytest.MonkeyPatch, step: Callable[[Path], None]) -> None:
    """Building a root becomes this one step."""
    monkeypatch.setattr(root_module, "unpack_debian", lambda scratch, root, *_: step(root))
    monkeypatch.setattr(root_module, "_install_wheels", lambda root, progress: None)
    monkeypatch.setattr(root_module, "_finish", lambda root, progress: None)


def test_the_root_of_the_faster_build_stays(monkeypatch: pytest.MonkeyPatch, empty_cache: Path):
    def step(root: Path) -> None:
        (root / "slower").mkdir(parents=True)
        (empty_cache / root_module._key(root_module.NOTHING) / "faster").mkdir(parents=True)

    replace_steps(monkeypatch, step)
    root = root_module.build_root()
    assert [path.name for path in root.iterdir()] == ["faster"]
    assert list(empty_cache.iterdir()) == [root]
    assert root_module.build_root() == root


def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, empty_cache: Path):
    def step(root: Path) -> None:
        root.mkdir()
        tools.run_tool(["sh", "-c", "echo one; echo two >&2; exit 7"], hint="try harder")

    replace_steps(monkeypatch, step)
    with pytest.raises(BuildError, match=r"status 7:\n    one\n    two\n.*where: sh -c .*\n.*try"):
        root_module.build_root()
    assert not list(empty_cache.iterdir())


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        BuildError, match=r"needs qemu-aarch64-static(.|\n)*install qemu-user-static"
    ):
        tools.find_tool("qemu-aarch64-static")
