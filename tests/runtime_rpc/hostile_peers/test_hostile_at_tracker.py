"""Those who mean a tracker of odtc's harm, over loopback: it serves all others."""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode

from odtc.core.errors import DeviceBusyError
from odtc.runtime_rpc.server.net import bounds, wire
from odtc.runtime_rpc.tracker import guarded_tracker, tracker_server
from odtc.runtime_rpc.tracker.trackers import Tracker, tracker_at

At = tuple[str, int]
MAGIC = wire.number(RPC_TRACKER_MAGIC)
PUT, UPDATE_INFO, REQUEST = TrackerCode.PUT, TrackerCode.UPDATE_INFO, TrackerCode.REQUEST


@contextmanager
def tracking() -> Iterator[tuple[At, int]]:
    """A tracker, and the process that it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", tracker_server.__name__, str(number)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])
        at = listener.getsockname()[:2]
    with process:
        with tracker_at(at, 120, "here"):
            pass
        yield at, process.pid
        assert process.poll() is None
        assert process.stdin
        process.stdin.close()


@pytest.fixture(scope="module")
def tracker() -> Iterator[tuple[At, int]]:
    with tracking() as it:
        yield it


@pytest.fixture
def at(tracker: tuple[At, int]) -> Iterator[At]:
    """Its address; after a test, a device can be registered, found and taken."""
    yield tracker[0]
    serves(tracker[0])


def serves(at: At, key: str = "pixel") -> None:
    with greeted(at) as device:
        say(device, [UPDATE_INFO, {"key": f"server:{key}", "addr": ["127.0.0.1", 9]}])
        say(device, [PUT, key, [9, f"{key}:1"], "127.0.0.1"])
        with asking(at) as client:
            (found,) = [it for it in client.devices() if it.key == key]
            assert found.free == 1
            assert client.request(key, 20).match == f"{key}:1"


@contextmanager
def asking(at: At) -> Iterator[Tracker]:
    with tracker_at(at, 20, "here") as tracker:
        yield tracker


@contextmanager
def greeted(at: At, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection(at, 20, (source, 0)) as connection:
        connection.sendall(MAGIC)
        assert connection.recv(4) == MAGIC
        yield connection


def say(connection: socket.socket, message: Any) -> Any:
    """Sends a message and returns the answer; an OSError where the connection is ended."""
    connection.sendall(wire.frame(message))
    return wire.parsed(wire.receive(connection, wire.Received(1 << 20), 20))


INFO = [UPDATE_INFO, {"key": "server:bad", "addr": ["127.0.0.1", 9]}]


@pytest.mark.parametrize(
    "messages",
    [
        [5],
        [[]],
        [{}],
        [[99]],
        [["SUMMARY"]],
        [[UPDATE_INFO]],
        [[UPDATE_INFO, 5]],
        [[UPDATE_INFO, {"key": 5, "addr": ["h", 9]}]],
        [[UPDATE_INFO, {"key": "server:bad", "addr": "h9"}]],
        [[UPDATE_INFO, {"key": "server:bad", "addr": ["h", 1 << 20]}]],
        [[UPDATE_INFO, {"key": "server:bad", "addr": ["h", 9], "more": "x"}]],
        [[UPDATE_INFO, {"key": "x" * 1000, "addr": ["h", 9]}]],
        [[PUT, "bad", [9, "bad:1"], None]],
        [INFO, [PUT, "bad", [9, "other:1"], None]],
        [INFO, [PUT, "pixel", [9, "pixel:1"], None]],
        [INFO, [PUT, "bad", [9, 5], None]],
        [INFO, [PUT, "bad", ["nine", "bad:1"], None]],
        [INFO, [PUT, "bad", [9, "bad:1"], None], [PUT, "bad", [9, "bad:1"], None]],
        [INFO, *([PUT, "bad", [9, f"bad:{n}"], None] for n in range(100))],
        [[REQUEST, 5, "", 1]],
        [[REQUEST, "bad", "", "first"]],
        [[TrackerCode.STOP, 5]],
    ],
    ids=lambda messages: json.dumps(messages)[:60],
)
def test_a_message_of_another_form_ends_its_connection(at: At, messages: list[Any]) -> None:
    *before, last = messages
    with greeted(at) as connection:
        for message in before[: guarded_tracker.MOST_WAITING + 1]:
            say(connection, message)
        with pytest.raises(OSError, match=r"closed|reset|Broken"):
            say(connection, last)
    with asking(at) as client:
        assert "bad" not in [it.key for it in client.devices()]


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0",
        MAGIC + wire.number(-1),
        MAGIC + wire.number((1 << 31) - 1),
        MAGIC + wire.number(500_000) + b"[" * 500_000,
        MAGIC + wire.number(2) + b"\xff\xfe",
    ],
)
def test_other_bytes_end_their_connection(at: At, said: bytes) -> None:
    with socket.create_connection(at, 20) as connection:
        # The tracker may not read the greeting with what is after it.
        connection.sendall(said[:4])
        time.sleep(0.1)
        try:
            connection.sendall(said[4:])
            while connection.recv(4096):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def test_who_says_nothing_is_not_waited_for(at: At) -> None:
    with socket.create_connection(at, bounds.GREETING_SECONDS + 20) as connection:
        assert connection.recv(4) == b""


def test_nothing_waits_for_clients_that_have_gone(at: At) -> None:
    """A busy device: who gave up is no more in its queue, however many they were."""
    with greeted(at) as device, asking(at) as client:
        say(device, [UPDATE_INFO, {"key": "server:busy", "addr": ["127.0.0.1", 9]}])
        for _ in range(20):
            with asking(at) as other, pytest.raises(DeviceBusyError):
                other.request("busy", 0.01)
        end = time.monotonic() + 20
        while next(it for it in client.devices() if it.key == "busy").waiting:
            assert time.monotonic() < end


def test_a_reader_that_does_not_read_is_cut(at: At) -> None:
    with greeted(at) as connection:
        connection.settimeout(20)
        try:
            while True:
                connection.sendall(wire.frame([TrackerCode.SUMMARY]) * 1000)
        except (ConnectionResetError, BrokenPipeError):
            pass


def test_more_connections_than_there_is_room_for(at: At) -> None:
    """The oldest go, and the device stays."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        device = stack.enter_context(greeted(at))
        say(device, [UPDATE_INFO, {"key": "server:stays", "addr": ["127.0.0.1", 9]}])
        first = stack.enter_context(greeted(at))
        for number in range(bounds.PEERS + 200):
            source = (f"127.0.0.{2 + number % 2}", 0)
            stack.enter_context(socket.create_connection(at, 20, source))
        first.settimeout(20)
        assert first.recv(4) == b""
        began = time.monotonic()
        with asking(at) as client:
            assert "stays" in [it.key for it in client.devices()]
        assert time.monotonic() - began < 8


def test_a_tracker_without_files_takes_them_back() -> None:
    with tracking() as (at, pid):
        files = len(os.listdir(f"/proc/{pid}/fd"))
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 5, limits[1]))
        with ExitStack() as stack:
            for _ in range(30):
                stack.enter_context(socket.create_connection(at, 20))
            serves(at)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with socket.create_connection(at, 20):
            time.sleep(1)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            serves(at)
