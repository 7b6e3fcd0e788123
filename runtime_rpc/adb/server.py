"""Odtc-device on a phone: pushed, started, asked, stopped.

Nothing of the phone is needed but Android's shell, and nothing of it is changed: all lies in one
folder, which is the shell's own.
"""

import hashlib
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import DeviceError
from odtc.core.process.progress import Progress
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.ended import not_running
from odtc.runtime_rpc.adb.state import LOOPBACK, Phone, slug
from odtc.runtime_rpc.native.device.build import NAME
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker import greeting

FOLDER = "/data/local/tmp/odtc"
START_SECONDS = 90.0
# Beside the program, and the one that it replaces: for a step, of which nobody knows here.
ROOM_KIB = 1024
FREE_SPACE = "free space on the phone, for example of apps or pictures: they share its storage"

_ASK_SECONDS = 5.0
_POLL_SECONDS = 0.05
_ABIS = ("arm64-v8a",)
_LISTEN, _PORT, _ABSTRACT = "--listen", "--port", "abstract"

# Its words are the server's options. An emulator is named by the stand-in alone.
_START = (
    "umask 077; echo $$ > pid; "
    'test "$(getprop ro.kernel.qemu)" = 1 && set -- --emulated "$@"; '
    f'exec $(getprop odtc.emulator) ./{NAME} --folder {FOLDER}/sessions "$@"'
)


def server_name(phone: Phone) -> str:
    """The abstract socket of a phone's server."""
    return f"odtc-{slug(phone.key)}"


def tracker_name(phone: Phone) -> str:
    """The abstract socket on a phone that leads to the tracker: one for each computer."""
    return f"odtc-{slug(phone.key)}-tracker-{phone.port}"


def identity(program: bytes, phone: Phone) -> str:
    """What a server that was started from here says of itself: its program, and whose it is."""
    return hashlib.sha256(f"{phone.key}:{phone.port}:".encode() + program).hexdigest()[:16]


def ask(phone: Phone, message: dict[str, Any]) -> dict[str, Any] | None:
    """Asks a phone's server and returns its answer; None if there is no server."""
    return ask_at(phone.port, message)


def ask_at(port: int, message: dict[str, Any]) -> dict[str, Any] | None:
    """Asks the server that a port of this host leads to; None if there is none."""
    with (
        suppress(OSError, ValueError),
        greeting.greet((LOOPBACK, port), _ASK_SECONDS) as connection,
    ):
        return wire.ask(connection, message)
    return None


def is_current(adb: Adb, phone: Phone, program: bytes) -> bool:
    """Whether the phone's server runs, is this program, was started from here and has its folder.

    Who removes the folder removes what sessions need, and leaves the server alone.
    """
    found = ask(phone, {"ask": "status"})
    if found is None or found.get("files") != identity(program, phone):
        return False
    with suppress(DeviceError):
        greeting.check_versions(found, phone.serial)
        return bool(adb.shell(f"test -d {FOLDER}/sessions && echo yes || true").strip())
    return False


@dataclass(frozen=True)
class RunningServer:
    """A server that runs on a phone, whoever started it.

    Attributes:
        socket: that it listens at, an abstract one.
        port: that leads to it, on the computer that started it.
    """

    socket: str
    port: str


def started(phone: Phone) -> RunningServer:
    """A phone's server as it was started from here."""
    return RunningServer(server_name(phone), str(phone.port))


def running(adb: Adb) -> RunningServer | None:
    """The server that runs on the phone, by the words that it was started with."""
    pid = f"$(cat {FOLDER}/pid 2>/dev/null)"
    words = adb.shell(f"cat /proc/{pid}/cmdline 2>/dev/null | tr '\\0' '\\n'").split("\n")
    said = dict(pairwise(words))
    kind, _, socket = said.get(_LISTEN, "").partition(":")
    return RunningServer(socket, said.get(_PORT, "")) if kind == _ABSTRACT else None


def check_abi(adb: Adb) -> str:
    """The phone's ABI, for which there is a server.

    Raises:
        DeviceError: there is none.
    """
    abi = adb.shell("getprop ro.product.cpu.abi").strip()
    if abi not in _ABIS:
        raise DeviceError(
            f"the phone's ABI is {abi!r}; odtc has a server for {', '.join(_ABIS)}",
            where=adb.serial,
            hint="use a phone whose Android is a 64-bit one",
        )
    return abi


def no_folder(adb: Adb, reason: str) -> DeviceError:
    """The error for a folder that the server cannot have."""
    return DeviceError(
        f"the server's folder on the phone cannot be used: {reason}",
        where=f"{adb.serial}, {FOLDER}",
        hint=f"remove what is there, by `adb -s {adb.serial} shell rm -r {FOLDER}`; adb's shell "
        "has to be able to write there",
    )


def free_kib(line: str) -> int:
    """KiB that are left, by a line of `df -k`."""
    return int(line.split()[-3])


def push(adb: Adb, program: bytes, progress: Progress) -> None:
    """Pushes the program beside one that runs.

    Raises:
        DeviceError: the phone has another ABI, no folder for it, or no room.
    """
    check_abi(adb)
    if said := adb.shell(f"{{ mkdir -p {FOLDER} && chmod 700 {FOLDER}; }} 2>&1 || true").strip():
        raise no_folder(adb, said.splitlines()[-1])
    needed = -(-len(program) // 1024) + ROOM_KIB
    free = free_kib(adb.shell(f"df -k {FOLDER}").splitlines()[-1])
    if free < needed:
        raise DeviceError(
            f"the phone has {free} KiB left; odtc's server needs {needed} KiB",
            where=f"{adb.serial}, {FOLDER}",
            hint=FREE_SPACE,
        )
    progress("pushing odtc-device to the phone")
    with temporary_folder() as files:
        (files / NAME).write_bytes(program)
        adb.push(files / NAME, f"{FOLDER}/{NAME}.new")


def stop(adb: Adb, phone: Phone) -> None:
    """Stops the server of a phone, whichever way it listens."""
    ask(phone, {"ask": "stop"})
    adb.shell(
        f"cd {FOLDER} 2>/dev/null || exit 0; test -f pid || exit 0; "
        "for i in 1 2 3 4 5 6 7 8 9; do kill -0 $(cat pid) 2>/dev/null || break; sleep 0.2; done; "
        "kill -9 $(cat pid) 2>/dev/null; rm -f pid"
    )


def start(adb: Adb, phone: Phone, files: str) -> None:
    """Starts the program that was pushed last; returns when it answers.

    Args:
        adb: of the phone.
        phone: to be.
        files: its `identity`.

    Raises:
        DeviceError: it does not start; with the end of its log.
    """
    where = (_LISTEN, f"{_ABSTRACT}:{server_name(phone)}")
    tracker = ("--tracker", f"{_ABSTRACT}:{tracker_name(phone)}", _PORT, str(phone.port))
    # The phone's shell reads these words, and a key is whatever its user calls the phone.
    options = shlex.join((*where, *tracker, "--key", phone.key, "--files", files))
    # When this shell ends, processes that are still in its session may get SIGHUP. A host that has
    # no such thing as the right to execute a file gives none.
    adb.shell(
        f"cd {FOLDER} && rm -f pid && {{ test ! -f {NAME}.new || mv -f {NAME}.new {NAME}; }} && "
        f"chmod 700 {NAME} && trap '' HUP && "
        f"{{ setsid sh -c '{_START}' sh {options} </dev/null >log 2>&1 & }}"
    )
    deadline = time.monotonic() + START_SECONDS
    while ask(phone, {"ask": "status"}) is None:
        alive = adb.shell(f"kill -0 $(cat {FOLDER}/pid) 2>/dev/null && echo yes || true").strip()
        if time.monotonic() > deadline or (not alive and _had_time(deadline)):
            raise not_running(
                "the server did not start on the phone",
                *(adb, FOLDER, f"`odtc device doctor {phone.serial}` says what is wrong"),
            )
        time.sleep(_POLL_SECONDS)


def _had_time(deadline: float) -> bool:
    """Whether a process that is being started must exist by now."""
    return deadline - time.monotonic() < START_SECONDS - _ASK_SECONDS
