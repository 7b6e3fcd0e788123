"""The tracker of this host's phones: one, however many ask at once, until no phone is left."""

import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb import local_tracker
from odtc.runtime_rpc.tracker.trackers import tracker_at


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[subprocess.Popen[bytes]]:
    """The processes that are started; of a user without any phone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    begun: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        begun.append(start(*words, **options))
        return begun[-1]

    monkeypatch.setattr(local_tracker.subprocess, "Popen", noted)
    return begun


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_two_that_ask_at_once_get_one(started: list[subprocess.Popen[bytes]]) -> None:
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(local_tracker.ensure, [port, port])) == [port, port]
    (process,) = started
    with tracker_at(("127.0.0.1", port), 60, "tracker") as tracker:
        assert tracker.devices() == []
    assert local_tracker.stop_if_unused(port)
    assert process.wait(60) == 0
    assert not local_tracker.stop_if_unused(port)


def test_a_port_of_something_else_is_refused(started: list[subprocess.Popen[bytes]]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(DeviceError, match=r"no tracker can listen on port \d+: Address already"),
    ):
        local_tracker.ensure(other.getsockname()[1])
    assert not started


def test_one_that_does_not_start_says_where_to_look(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_tracker.sys, "executable", "/bin/false")
    with pytest.raises(DeviceError, match=r"the tracker did not start\n.*tracker-\d+\.log"):
        local_tracker.ensure(0)
    (process,) = started
    assert process.wait(60) == 1
