"""odtc's server on this machine, in processes of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

from odtc.runtime_rpc import server
from odtc.runtime_rpc.tracker import tracker_server
from odtc.runtime_rpc.tracker.trackers import tracker_at

# Two processes import TVM, on a machine that may be busy.
START_SECONDS = 180


@contextmanager
def serving(folder: Path, idle: float = 30.0, log: Path | None = None) -> Iterator[str]:
    """A server behind a tracker, and its URL.

    Args:
        folder: for what its sessions write.
        idle: seconds between signs of life, after which sessions end.
        log: what it says goes there.
    """
    with ExitStack() as stack:
        said = stack.enter_context(log.open("w")) if log else None
        port = stack.enter_context(tracking(said))
        stack.enter_context(
            _process(server.__name__, *words_of(port, folder, idle), "--until-closed", said=said)
        )
        wait_for_server(port)
        yield url_of(port)


@contextmanager
def tracking(said: IO[str] | None = None) -> Iterator[int]:
    """A tracker, and its port.

    Args:
        said: what it says goes there.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        with _process(tracker_server.__name__, str(number), said=said, files=(number,)):
            yield listener.getsockname()[1]


def words_of(port: int, folder: Path, idle: float = 30.0) -> list[str]:
    """The command line of a server behind the tracker at a port; see `serving`."""
    where = ["--listen", "tcp:0", "--tracker", f"tcp:{port}", "--key", "here"]
    return [*where, "--folder", str(folder), "--odtc", version("odtc"), "--idle", str(idle)]


def wait_for_server(port: int) -> None:
    """Waits until a server has registered itself at the tracker at a port."""
    deadline = time.monotonic() + START_SECONDS
    with tracker_at(("127.0.0.1", port), START_SECONDS, "tracker") as tracker:
        while not tracker.devices():
            assert time.monotonic() < deadline
            time.sleep(0.1)


def url_of(port: int) -> str:
    """The URL of the server behind the tracker at a port."""
    return f"rpc://127.0.0.1:{port}/here"


@contextmanager
def _process(
    module: str, *words: str, said: IO[str] | None, files: Sequence[int] = ()
) -> Iterator[None]:
    """A module that runs until its standard input is closed, with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stderr=said,
        pass_fds=files,
    ) as process:
        assert process.stdin
        with process.stdin:
            yield


def address(url: str) -> tuple[str, int]:
    """Where the server of a URL listens."""
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    with tracker_at((host, int(port)), 5, url) as tracker:
        (device,) = tracker.devices()
    return device.addresses[0]
