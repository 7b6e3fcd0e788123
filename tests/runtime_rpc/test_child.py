"""The process of a session and that of its server."""

import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from odtc.runtime_rpc.server.child import Child, SessionLimits
from tests.kills.fork_server import has_ended


def _serve(folder: Path) -> None:
    """A server whose session takes a minute, and whose client never goes."""
    ours, _theirs = socket.socketpair()
    child = Child(ours, "key", SessionLimits(), folder, lambda *_: time.sleep(60))
    (folder / "pid").write_text(str(child.pid))
    time.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_session_ends_with_a_server_that_is_killed(tmp_path: Path, number: int) -> None:
    server = multiprocessing.get_context("fork").Process(target=_serve, args=(tmp_path,))
    server.start()
    end = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    session = int((tmp_path / "pid").read_text())
    assert not has_ended(session)
    os.kill(server.pid or 0, number)
    server.join()
    while not has_ended(session):
        assert time.monotonic() < end
        time.sleep(0.01)
