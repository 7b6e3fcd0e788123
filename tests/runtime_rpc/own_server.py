"""odtc's server on this machine, in processes of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from odtc.runtime_rpc import server as python_server
from odtc.runtime_rpc.native.device.build import NAME, compiler_for, device_program, source_hash
from odtc.runtime_rpc.tracker.trackers import tracker_at
from tests.runtime_rpc.own_tracker import tracking

# Two processes import TVM, on a machine that may be busy.
START_SECONDS = 180
# The servers that there are: TVM's protocol in Python with TVM's runtime, and odtc-device.
PYTHON, NATIVE = "python", "native"
SERVERS = (PYTHON, NATIVE)
# The latter with the sanitizers of C.
SANITIZED = "sanitized"
# The same for 64-bit ARM, under emulation.
ARM = "arm"
# The same version, of other sources.
OTHER_BUILD, OTHER_SOURCES = "other build", "0123456789abcdef"
_EMULATOR = ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu")
# On a device there is no PyTorch, which TVM would import: that takes longer than all else.
_WITHOUT_TORCH = f"""
import runpy, sys
sys.modules["torch"] = None
runpy.run_module({python_server.__name__!r}, run_name="__main__", alter_sys=True)
"""
_SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@contextmanager
def serving(
    folder: Path,
    idle: float = 30.0,
    log: Path | None = None,
    server: str = PYTHON,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A server behind a tracker, and its URL.

    Args:
        folder: for what its sessions write.
        idle: seconds between signs of life, after which sessions end.
        log: what it says goes there.
        server: one of `SERVERS`.
        environment: what the server has beside this process's.
    """
    with ExitStack() as stack:
        if log:
            log.write_text("")
        said = stack.enter_context(log.open("a")) if log else None
        port = stack.enter_context(tracking(log))
        command = COMMANDS[server](stack, words_of(port, folder, idle))
        stack.enter_context(
            _process(*command, "--until-closed", said=said, environment=environment)
        )
        wait_for_server(port)
        yield url_of(port)


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
    *command: str,
    said: IO[str] | None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A process that runs until its standard input is closed, with the block."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=said,
        env=os.environ | (environment or {}),
    ) as process:
        assert process.stdin
        with process.stdin:
            yield


def _native(stack: ExitStack, words: list[str], content: bytes) -> list[str]:
    """odtc-device; its version is its own."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="odtc-device-")))
    program = folder / NAME
    program.write_bytes(content)
    program.chmod(0o700)
    at = words.index("--odtc")
    return [str(program), *words[:at], *words[at + 2 :]]


def _emulated(stack: ExitStack, words: list[str]) -> list[str]:
    return [
        *_EMULATOR,
        *_native(stack, words, device_program(compiler_for("aarch64"))),
        "--emulated",
    ]


# How each is started.
COMMANDS: dict[str, Callable[[ExitStack, list[str]], list[str]]] = {
    PYTHON: lambda _, words: [sys.executable, "-c", _WITHOUT_TORCH, *words],
    NATIVE: lambda stack, words: _native(stack, words, device_program()),
    SANITIZED: lambda stack, words: _native(stack, words, device_program(None, *_SANITIZERS)),
    ARM: _emulated,
    OTHER_BUILD: lambda stack, words: _native(stack, words, of_other_sources(device_program())),
}


def of_other_sources(program: bytes) -> bytes:
    """What a program would be that was built from `OTHER_SOURCES`, as far as it says so."""
    own = source_hash().encode()
    assert own in program
    return program.replace(own, OTHER_SOURCES.encode())


def address(url: str) -> tuple[str, int]:
    """Where the server of a URL listens."""
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    with tracker_at((host, int(port)), 5, url) as tracker:
        (device,) = tracker.devices()
    return device.addresses[0]
