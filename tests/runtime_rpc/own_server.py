"""odtc's server on this machine, in processes of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

from odtc.runtime_rpc import server, tracker_server
from odtc.runtime_rpc.trackers import tracker_at

# Two processes import TVM, on a machine that may be busy.
START_SECONDS = 180


@contextmanager
def serving(folder: Path, idle: float = 30.0, log: Path | None = None) -> Iterator[str]:
    """A server behind a tracker, and its URL.

    Args:
        folder: for what its sessions write.
        idle: seconds between signs of life, behind which sessions end.
        log: what it says goes there.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port, number = listener.getsockname()[1], listener.fileno()

        said = stack.enter_context(log.open("w")) if log else None

        def start(module: str, *words: str) -> None:
            command = [sys.executable, "-m", module, *words]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, pass_fds=[number])
            )
            assert process.stdin
            stack.callback(process.stdin.close)

        start(tracker_server.__name__, str(number))
        where = ["--listen", "tcp:0", "--tracker", f"tcp:{port}", "--key", "here"]
        what = ["--folder", str(folder), "--odtc", version("odtc"), "--idle", str(idle)]
        start(server.__name__, *where, *what, "--until-closed")
        deadline = time.monotonic() + START_SECONDS
        with tracker_at(("127.0.0.1", port), START_SECONDS, "tracker") as tracker:
            while not tracker.devices():
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"rpc://127.0.0.1:{port}/here"


def address(url: str) -> tuple[str, int]:
    """Where the server of a URL listens."""
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    with tracker_at((host, int(port)), 5, url) as tracker:
        (device,) = tracker.devices()
    return device.addresses[0]
