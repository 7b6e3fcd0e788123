"""The services of the stand-in for adb's daemon: shell, sync, forwarding and reversing.

Commands run in the phone's root folder and nowhere else. Only what odtc uses is there.
"""

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odtc.runtime_rpc.standin.adbd import AdbConnection, Stream

Service = Callable[["Stream"], None]

_PART = 64 * 1024
_SHELL = "/system/bin/sh"
_CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
_ENVIRONMENT = {"PATH": "/system/bin", "HOME": "/data/local/tmp", "LC_ALL": "C.UTF-8"}
_SHELL_PACKET = struct.Struct("<BI")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_SYNC = struct.Struct("<4sI")


@dataclass(frozen=True)
class PhoneRoot:
    """The environment in which commands run.

    Attributes:
        root: its root folder.
    """

    root: Path

    @property
    def banner(self) -> bytes:
        """The description that `adb devices` lists."""
        names = {"product.name": "odtc", "product.model": "Stand-in", "product.device": "emulated"}
        said = "".join(f"ro.{name}={value};" for name, value in names.items())
        return f"device::{said}features=shell_v2,cmd\0".encode()

    def path(self, name: str) -> Path:
        """Returns the path here of a file of the phone; never outside of the root."""
        return self.root / os.path.normpath(f"/{name}").lstrip("/")

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Starts a shell command, in a process group of its own."""
        return subprocess.Popen(
            [_CHROOT, str(self.root), _SHELL, *(["-c", command] if command else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ENVIRONMENT,
            start_new_session=True,
        )


def find(name: str, connection: "AdbConnection") -> Service | None:
    """The service of a name such as `shell,v2,raw:ls`; None if there is none."""
    kind, _, rest = name.partition(":")
    kind, *options = kind.split(",")
    match kind:
        case "shell" | "exec":
            return lambda stream: _shell(stream, connection.phone, rest, framed="v2" in options)
        case "sync":
            return lambda stream: _sync(stream, connection.phone)
        case "localabstract" | "tcp":
            try:
                there = _connect(kind, rest)
            except OSError:
                return None
            return lambda stream: _pump(stream, there)
        case "reverse":
            return lambda stream: _reverse(stream, connection, rest)
    return None


class Reversed:
    """An address of the phone that is forwarded to one of the host.

    Args:
        connection: of the host.
        here: the address to listen at.
        there: the host's.

    Attributes:
        there: the address that the next client is forwarded to.
    """

    def __init__(self, connection: "AdbConnection", here: str, there: str) -> None:
        self.there = there
        self._connection = connection
        kind, _, name = here.partition(":")
        if kind == "tcp":
            self._listener = socket.create_server(("127.0.0.1", int(name)))
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(f"\0{name}")
            self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Closes the listener; returns when the address is free again."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                stream = self._connection.open(self.there)
                threading.Thread(target=_pump, args=(stream, client), daemon=True).start()


def _shell(stream: "Stream", phone: PhoneRoot, command: str, *, framed: bool) -> None:
    """Runs a command; framed, its two outputs are separate, and its status is sent."""
    process = phone.start(command)
    assert process.stdin
    assert process.stdout
    assert process.stderr

    def send(kind: int, data: bytes) -> None:
        stream.write(_SHELL_PACKET.pack(kind, len(data)) + data if framed else data)

    def copy(kind: int, file: int) -> None:
        with suppress(EOFError, OSError):
            while data := os.read(file, _PART // 2):
                send(kind, data)

    feed = _feed_framed if framed else _feed
    threading.Thread(target=feed, args=(stream, process), daemon=True).start()
    outputs = ((_STDOUT, process.stdout.fileno()), (_STDERR, process.stderr.fileno()))
    copies = [threading.Thread(target=copy, args=each, daemon=True) for each in outputs]
    for each in copies:
        each.start()
    for each in copies:
        each.join()
    status = process.wait()
    if framed:
        send(_EXIT, bytes([status if status >= 0 else 128 - status]))


def _feed(stream: "Stream", process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    try:
        while True:
            process.stdin.write(stream.read())
            process.stdin.flush()
    except (EOFError, OSError):
        _hang_up(process)


def _feed_framed(stream: "Stream", process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    try:
        while True:
            kind, length = _SHELL_PACKET.unpack(stream.read(_SHELL_PACKET.size))
            data = stream.read(length) if length else b""
            if kind == _CLOSE_STDIN:
                process.stdin.close()
            elif kind == _STDIN:
                process.stdin.write(data)
                process.stdin.flush()
    except (EOFError, OSError, ValueError):
        _hang_up(process)


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Hangs up a command whose client has disconnected."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGHUP)


def _connect(kind: str, name: str) -> socket.socket:
    if kind == "tcp":
        return socket.create_connection(("127.0.0.1", int(name)))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0{name}")
    return connection


def _pump(stream: "Stream", there: socket.socket) -> None:
    """Carries bytes between a stream and a socket until one of them ends."""

    def down() -> None:
        with suppress(EOFError, OSError):
            while True:
                there.sendall(stream.read())
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=down, daemon=True).start()
    with suppress(OSError):
        while data := there.recv(_PART):
            stream.write(data)
    stream.close()
    there.close()


def _sync(stream: "Stream", phone: PhoneRoot) -> None:
    """Serves pushes and pulls of files."""
    while True:
        kind, length = _SYNC.unpack(stream.read(_SYNC.size))
        name = stream.read(length).decode() if length else ""
        match kind:
            case b"QUIT":
                return
            case b"STAT":
                stream.write(b"STAT" + _stat(phone.path(name)))
            case b"SEND":
                stream.write(_receive_file(stream, phone, name))
            case b"RECV":
                _send_file(stream, phone.path(name))


def _stat(path: Path) -> bytes:
    try:
        found = path.stat()
    except OSError:
        return bytes(12)
    return struct.pack("<3I", found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime))


def _receive_file(stream: "Stream", phone: PhoneRoot, name: str) -> bytes:
    name, _, mode = name.rpartition(",")
    path, problem = phone.path(name), ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except OSError as error:
        file, problem = Path(os.devnull).open("wb"), str(error.strerror)  # noqa: SIM115
    with file:
        while True:
            kind, length = _SYNC.unpack(stream.read(_SYNC.size))
            if kind == b"DONE":
                break
            data = stream.read(length)
            if not problem:
                try:
                    file.write(data)
                    file.flush()
                except OSError as error:
                    problem = str(error.strerror)
    if problem:
        return _SYNC.pack(b"FAIL", len(problem)) + problem.encode()
    path.chmod(stat.S_IMODE(int(mode)))
    return _SYNC.pack(b"OKAY", 0)


def _send_file(stream: "Stream", path: Path) -> None:
    try:
        with path.open("rb") as file:
            while data := file.read(_PART - _SYNC.size):
                stream.write(_SYNC.pack(b"DATA", len(data)) + data)
        stream.write(_SYNC.pack(b"DONE", 0))
    except OSError as error:
        problem = str(error.strerror).encode()
        stream.write(_SYNC.pack(b"FAIL", len(problem)) + problem)


def _reverse(stream: "Stream", connection: "AdbConnection", command: str) -> None:
    """Lets the phone reach the host: connections to an address of the phone are forwarded there."""
    kind, _, rest = command.partition(":")
    known = connection.reversed
    match kind:
        case "forward":
            here, _, there = rest.removeprefix("norebind:").partition(";")
            if here in known:
                known[here].there = there
            else:
                try:
                    known[here] = Reversed(connection, here, there)
                except OSError as error:
                    _answer(stream, b"FAIL", str(error))
                    return
            _answer(stream, b"OKAY", None)
        case "list-forward":
            _answer(
                stream, b"", "".join(f"UsbFfs {here} {it.there}\n" for here, it in known.items())
            )
        case "killforward" | "killforward-all":
            for here in [rest] if rest else list(known):
                if here in known:
                    known.pop(here).stop()
            _answer(stream, b"OKAY", None)


def _answer(stream: "Stream", status: bytes, text: str | None) -> None:
    said = b"" if text is None else b"%04x" % len(text) + text.encode()
    stream.write(status + said)
