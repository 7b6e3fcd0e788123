"""The device's server, run on this machine: its limits, its manners, its place at the tracker."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm.rpc.base import RPC_TRACKER_MAGIC

import odtc
from odtc.core.errors import DeviceError, DeviceLostError
from odtc.core.specs import Role, TensorSpec
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.guards.watchdog import shut_down
from odtc.runtime_rpc.memory import allocation
from odtc.runtime_rpc.server.net import files, registration, wire
from odtc.runtime_rpc.server.session import inside
from odtc.runtime_rpc.sessions import remote
from odtc.runtime_rpc.tracker.greeting import greet
from odtc.runtime_rpc.tracker.trackers import tracker_at
from tests.numeric.plans.test_memory_budget import tower
from tests.numeric.plans.test_offload import in_files
from tests.runtime_rpc.own_server import SERVERS, address, serving

IDLE = 1.0


@pytest.fixture(scope="module", params=SERVERS)
def url(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server behind a tracker; its sessions end where no sign of life comes for `IDLE`."""
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, IDLE, server=request.param) as running:
        yield running


def test_a_client_that_falls_silent_loses_its_session(url: str) -> None:
    # One sign of life, and then none for longer than the server waits.
    session = odtc.connect(url, Limits(beat=0.2))
    time.sleep(2 * IDLE)
    assert session.info()["machine"]
    session.close()
    silent = odtc.connect(url, Limits(beat=0.8 * IDLE))
    time.sleep(IDLE)
    silent.watchdog.stop()
    time.sleep(IDLE + 1)
    with pytest.raises(DeviceLostError, match=r"gave no sign of life for 1 s|lost"):
        silent.info()


def test_tensors_wait_in_files_of_the_device(url: str, tmp_path: Path, monkeypatch) -> None:
    onnx.save(tower(), tmp_path / "tower.onnx")
    artifact = in_files(tmp_path / "tower.onnx", optimizer=odtc.Adam())
    assert artifact.manifest.stored_bytes > 0
    monkeypatch.setattr(allocation, "_LEAST_FILE", 1024)
    assert any(item.spec.nbytes >= 1024 for item in artifact.manifest.of_role(Role.STATE))
    x, y = np.ones((4, 8, 12, 12), np.float32), np.arange(4)
    session = odtc.connect(url, Limits(beat=0.2))
    here = artifact.trainer()
    there = artifact.trainer(session, storage=str(tmp_path / "there"), offload_state=True)
    for _ in range(2):
        assert there.step(x, y, 0.1) == here.step(x, y, 0.1)
    assert not any((tmp_path / "there").iterdir())
    if session.serves_programs:
        with pytest.raises(DeviceError, match=r"no file in place of memory: .*Not a directory"):
            artifact.trainer(session, storage="/dev/null/there")
    else:
        with pytest.raises(DeviceError, match=r"File too large|disk is full"):
            session.file_memory(TensorSpec("wait", (1 << 60,), "uint8"), None)
    session.close()


def test_a_session_has_its_time(url: str) -> None:
    session = odtc.connect(url, Limits(session=1, beat=0.2))
    time.sleep(2)
    with pytest.raises(DeviceLostError, match="expired after 1 s"):
        session.info()


def test_a_client_that_was_killed_before_it_came_keeps_the_device_from_nobody(url: str) -> None:
    """The tracker gave it away, and the next client waits as long as clients do."""
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    with tracker_at((host, int(port)), 5, url) as tracker:
        tracker.request("here", 10)
    session = odtc.connect(url)
    assert session.info()["machine"]
    session.close()


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x71\xf2\x0f\x00\xff\xff\xff\xff"]
)
def test_strangers_do_no_harm(url: str, said: bytes) -> None:
    at = address(url)
    for _ in range(20):
        with socket.create_connection(at, 5) as stranger:
            stranger.sendall(said)
    with greet(at, 5) as connection:
        assert wire.ask(connection, {"ask": "status"})["busy"] is False
    session = odtc.connect(url)
    assert session.info()["emulated"] is False
    session.close()


def test_a_tracker_that_has_nothing_to_say_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a session nothing is asked; what is asked after it has all of its time."""
    now = 0.0
    monkeypatch.setattr(registration.time, "monotonic", lambda: now)
    with socket.create_server(("127.0.0.1", 0)) as tracker:
        one = registration.Registration(f"tcp:{tracker.getsockname()[1]}", "key", ("127.0.0.1", 1))
        now = 5.0
        one.tick()
        there, _ = tracker.accept()
        with there:
            there.sendall(wire.number(RPC_TRACKER_MAGIC) + wire.frame(0))
            one.take_turn(files.READ)
            now = 500.0
            one.offer()
            one.tick()
            assert one.socket
            now = 511.0
            one.tick()
            assert one.socket is None


def test_a_tracker_is_told_nothing_before_it_answers() -> None:
    """TVM's tracker refuses what it reads together with the first number, when it is busy."""
    with socket.create_server(("127.0.0.1", 0)) as tracker:
        one = registration.Registration(f"tcp:{tracker.getsockname()[1]}", "key", ("127.0.0.1", 1))
        one.tick()
        one.offer()
        one.tick()
        there, _ = tracker.accept()
        with there:
            there.settimeout(0.2)
            assert there.recv(4096) == wire.number(RPC_TRACKER_MAGIC)
            with pytest.raises(TimeoutError):
                there.recv(4096)
            there.sendall(wire.number(RPC_TRACKER_MAGIC))
            one.take_turn(files.READ)
            told = there.recv(4096)
            assert b"server:key" in told
            assert str(one.match).encode() in told


def test_a_wrong_key_is_refused(url: str) -> None:
    from tvm.rpc import base

    with socket.create_connection(address(url), 5) as client:
        key = b"client:here:guess"
        client.sendall(wire.number(base.RPC_MAGIC) + wire.number(len(key)) + key)
        assert client.recv(4, socket.MSG_WAITALL) == wire.number(base.RPC_CODE_MISMATCH)


@given(st.lists(st.sampled_from(["..", "a", "b", ".", "", "/", "~"]), max_size=6).map("/".join))
def test_names_stay_inside(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "inside"
    folder.mkdir(exist_ok=True)
    try:
        path = inside(folder, name)
    except PermissionError:
        assert ".." in name or name.startswith("/")
    else:
        assert path == folder.resolve() or folder.resolve() in path.parents


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="outside of the session's folder"):
        inside(folder, "out/file")


@given(st.lists(st.dictionaries(st.text(), st.integers()), max_size=4), st.integers(1, 9))
def test_messages_come_whole_however_they_are_cut(messages: list[dict], size: int) -> None:
    data = b"".join(map(wire.frame, messages))
    received, found = wire.Received(), []
    for start in range(0, len(data), size):
        received.add(data[start : start + size])
        while (text := received.text()) is not None:
            found.append(json.loads(text))
    assert found == messages


@pytest.mark.parametrize("length", [-1, wire.MOST_BYTES + 1])
def test_a_message_has_a_bound(length: int) -> None:
    received = wire.Received()
    received.add(wire.number(length))
    with pytest.raises(ValueError, match=f"a message of {length} bytes"):
        received.text()


@pytest.mark.parametrize(
    "said",
    [
        "Check failed: (code == RPCCode::kReturn) is false: code=1",
        "Check failed: (HandleUntilReturnEvent(true, [](ffi::PackedArgs) {}) == "
        "RPCCode::kReturn) is false: ",
        "Check failed: (HandleUntilReturnEvent(true, [](ffi::PackedArgs) {}) == "
        "RPCCode::kCopyAck) is false: ",
    ],
)
def test_a_connection_that_ends_in_a_call_is_a_lost_device(said: str) -> None:
    """TVM's error for it, where no reason was received."""
    error = remote._of_device(RuntimeError(said), "adb://phone", None)
    assert isinstance(error, DeviceLostError)
    assert error.what == "the device was lost: its connection ended in the middle of a call"


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (
            signal.SIGKILL,
            DeviceLostError,
            "the device was lost: the session ended: its process was ",
        ),
        (
            signal.SIGTERM,
            DeviceLostError,
            "the device was lost: the session ended: its process was ",
        ),
        (signal.SIGILL, DeviceError, "the device could not run the code: the session ended: its "),
    ],
)
def test_a_reason_that_the_end_of_the_connection_came_before(
    url: str, number: signal.Signals, kind: type[DeviceError], text: str
) -> None:
    """Bytes sent to a session that has ended may close the connection before its last message."""
    session = odtc.connect(url, Limits(request=10))
    os.kill(session.info()["pid"], number)
    with greet(address(url), 5) as connection:
        while wire.ask(connection, {"ask": "status"})["busy"]:
            time.sleep(0.01)
    shut_down(address(url))
    with pytest.raises(DeviceError) as caught:
        session.info()
    assert type(caught.value) is kind
    assert caught.value.what.startswith(text)
    assert number.name in caught.value.what


@pytest.mark.parametrize("server", SERVERS)
def test_a_log_that_is_full_ends_nothing(tmp_path: Path, server: str) -> None:
    """The server of a phone has its log on the disk that uploads fill."""
    with serving(tmp_path / "sessions", log=Path("/dev/full"), server=server) as running:
        for number in (signal.SIGKILL, signal.SIGSEGV):
            session = odtc.connect(running, Limits(request=10))
            os.kill(session.info()["pid"], number)
            with pytest.raises(DeviceError, match=number.name):
                session.info()
            session.close()
        with socket.create_connection(address(running)) as stranger:
            stranger.sendall(b"hello, what is this?")
        odtc.connect(running, Limits(request=10)).close()
