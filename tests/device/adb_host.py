"""A host with phones behind the real adb, apart from whatever adb its user has running."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import psutil

from odtc.runtime_rpc.adb import server, setup, state
from odtc.runtime_rpc.native.device.build import NAME
from odtc.runtime_rpc.standin.adb_phone import DISK, AdbPhone, adb_phone

SERVER = f"./{NAME}"


def adb(*words: str) -> str:
    """Runs adb and returns its output; it may not read what the tests read."""
    return subprocess.run(
        ["adb", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout


def plug_in(phone: AdbPhone) -> None:
    """Until adb says that the phone is there."""
    deadline = time.monotonic() + 120
    while f"{phone.serial}\tdevice" not in adb("devices"):
        assert time.monotonic() < deadline, adb("devices")
        subprocess.run(["adb", "connect", phone.serial], check=False, timeout=300)
        time.sleep(0.1)


@contextmanager
def adb_server(folder: Path) -> Iterator[None]:
    """An adb server of its own, with keys and records of its own, for the time of the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    apart = {
        "HOME": str(folder),
        "ANDROID_ADB_SERVER_PORT": port,
        "XDG_STATE_HOME": str(folder),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
    }
    with mock.patch.dict(os.environ, apart):
        adb("start-server")
        try:
            yield
        finally:
            adb("kill-server")


@contextmanager
def plugged_in(port: int = 0, disk: str = DISK) -> Iterator[AdbPhone]:
    """A phone that adb knows; what was set up on it is stopped at the end."""
    with ExitStack() as stack:
        phone = stack.enter_context(adb_phone(port, disk))
        plug_in(phone)
        stack.callback(subprocess.run, ["adb", "disconnect", phone.serial], check=False)
        yield phone
        if state.find(phone.serial):
            setup.stop(phone.serial)


def server_processes(phone: AdbPhone) -> list[psutil.Process]:
    """The server, and behind it the processes of its sessions."""
    found = [it for it in phone.processes() if SERVER in _words(it)]
    return sorted(found, key=lambda it: it.create_time())


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def session_process(phone: AdbPhone) -> psutil.Process:
    _, child = server_processes(phone)
    return child


def _connections(port: int) -> list[object]:
    """Connections of this process to a port of this host."""
    found = psutil.Process().net_connections("tcp")
    return [it for it in found if it.raddr and it.raddr[1] == port and it.status == "ESTABLISHED"]


def wait_until_free(phone: AdbPhone, seconds: float = 15) -> None:
    """Until neither the server nor this process has anything left of a session."""
    known = state.find(phone.serial)
    assert known
    deadline = time.monotonic() + seconds
    while True:
        said = server.ask(known, {"ask": "status"})
        if said and not said["busy"]:
            break
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    assert len(server_processes(phone)) == 1
    while left := _connections(known.port):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    listed = adb("-s", phone.serial, "shell", "ls /data/local/tmp/odtc/sessions")
    assert listed == ""
