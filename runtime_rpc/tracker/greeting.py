"""Talks to a device's server beside its sessions: whether it is there, what it is, of what version.

TVM compares no versions, and waits without end for a server that does not answer.
"""

import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.native.device.build import source_hash
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.trackers import Address

# Versions that must be the same at both ends, and their names in messages.
_COMPARED = {
    "odtc": "odtc",
    "sources": "the hash of odtc-device's sources",
    "tvm": "TVM",
    "ffi": "TVM's FFI",
    "abi": "the ABI",
}
_VERSIONS: dict[str, Callable[[], str]] = {
    "odtc": lambda: version("odtc"),
    "sources": source_hash,
    "tvm": lambda: version("apache-tvm"),
    "ffi": lambda: version("apache-tvm-ffi"),
    "abi": lambda: f"{8 * struct.calcsize('P')}-bit {sys.byteorder}-endian",
}
OTHER = "the device's server is a different version or build"
# A server of the native runtime has no TVM; what it speaks of TVM's is compared by its sessions.
_OF_NATIVE = ("odtc", "sources", "abi")
_OF_PYTHON = ("odtc", "tvm", "ffi", "abi")
# Most letters of a server's answer in a message.
_LETTERS = 80


def own_versions() -> dict[str, str]:
    """Returns the versions that a server's are compared with."""
    return {name: find() for name, find in _VERSIONS.items()}


def greet(address: Address, seconds: float) -> socket.socket:
    """Opens a connection for questions; each wait times out after so many seconds.

    Raises:
        OSError: nothing listens there.
    """
    connection = socket.create_connection(address, seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(wire.number(wire.GREETING))
    return connection


def status(address: Address, seconds: float, where: str) -> dict[str, Any] | None:
    """Asks a device's server for its status; None if it is TVM's own, which has none.

    Raises:
        DeviceError: it does not answer in time, sends this host away, or says what is no status.
    """
    try:
        with greet(address, seconds) as connection:
            return wire.ask(connection, {"ask": "status"})
    except (TimeoutError, ConnectionRefusedError) as error:
        raise DeviceError(
            f"the device does not answer within {seconds:g} s: {error}",
            where=where,
            hint="wake the device and check its cable; `odtc device doctor` says what is wrong",
        ) from error
    except wire.RefusedError as error:
        raise DeviceError(
            str(error), where=where, hint="try again; its log says who else connects to it"
        ) from error
    except ValueError as error:
        # TVM's own server closes the connection without an answer.
        raise DeviceError(
            f"what answers there is not the server of a device: {str(error)[:_LETTERS]}",
            where=where,
            hint="check the address; `odtc device setup SERIAL` starts the server of a phone",
        ) from error
    except OSError:
        return None


def why_ended(address: Address, match: str, seconds: float) -> str:
    """A server's reason for the end of a session, or why it did not begin; '' where there is none.

    Args:
        address: of the server.
        match: the session's key.
        seconds: within which it must answer.
    """
    try:
        with greet(address, seconds) as connection:
            return str(wire.ask(connection, {"ask": "beat", "session": match})["why"])
    except (OSError, ValueError, KeyError):
        return ""


def serves_programs(found: dict[str, Any] | None) -> bool:
    """Whether a status is that of a server of the native runtime, which runs programs alone."""
    return found is not None and found.get("server") == "native"


def check_versions(found: dict[str, Any], where: str) -> None:
    """Compares a server with this host, whichever way leads to it.

    Raises:
        DeviceError: a version differs, or odtc-device was built from other sources.
    """
    if differing := differences(found):
        raise DeviceError(
            f"{OTHER}: {differing}",
            where=where,
            hint="replace it: `odtc device setup SERIAL` does so on a phone; for a board, `odtc "
            "device build` writes it",
        )


def differences(found: dict[str, Any]) -> str:
    """What is other in a server than in this host, as a text; empty where a session can begin.

    Versions of what is not installed here are not compared.
    """
    compared = _OF_NATIVE if serves_programs(found) else _OF_PYTHON
    said = []
    for name in compared:
        there = found.get(name, "unknown")
        with suppress(PackageNotFoundError):
            if there != (own := _VERSIONS[name]()):
                said.append(f"{_COMPARED[name]} is {str(there)[:_LETTERS]} there and {own} here")
    return "; ".join(said)
