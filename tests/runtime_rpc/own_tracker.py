"""Trackers on this machine, each in a process of its own.

A tracker imports TVM, which takes a second of the processor's time: more than most tests with one.
So it is forked from a process that has imported that, and started nothing, as threads would not be
in a fork.
"""

import multiprocessing
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

from odtc.runtime_rpc.tracker import tracker_server

_ROOT = str(Path(__file__).parents[2])
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.runtime_rpc.tracker_imports"])


@contextmanager
def tracking(log: Path | None = None) -> Iterator[int]:
    """A tracker, and its port; it ends with the block, or with this process.

    Args:
        log: what it says is appended there.
    """
    # It finds what it imports first by this alone.
    with patch.dict(os.environ, {"PYTHONPATH": _ROOT}):
        forkserver.ensure_running()
    ours, theirs = _FORKS.Pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = _FORKS.Process(target=_track, args=(listener, theirs, log), daemon=True)
        process.start()
        theirs.close()
        try:
            yield listener.getsockname()[1]
        finally:
            ours.close()
            process.join()


def _track(listener: socket.socket, alive: Connection, log: Path | None) -> None:
    """The life of a tracker, which ends with its standard input."""
    os.dup2(alive.fileno(), 0)
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    tracker_server.main(listener.detach(), detached=False)
