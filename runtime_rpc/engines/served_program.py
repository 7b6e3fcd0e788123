"""A program that odtc-device has open for a session."""

import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odtc.runtime_rpc.guards.failures import FAILURES
from odtc.runtime_rpc.native.interface import NativeError
from odtc.runtime_rpc.sessions.remote import RemoteSession

# How the server tells a failure of its runtime.
_FAILED = re.compile(r"odtc (?P<code>\d+): (?P<what>.*)")
# Bytes of a file in one message.
_BLOCK = 4 << 20


def uploaded(session: RemoteSession, path: Path, name: str) -> str:
    """Sends a file to the session's folder; its name there, which none had before.

    A loader gives a library back that it has loaded of the same name.

    Args:
        session: with the device.
        path: of the file.
        name: in which that there ends.
    """
    with session.guard():
        send = session.function("tvm.rpc.server.upload")
        append = session.function("odtc.append")
    own = f"{secrets.token_hex(8)}-{name}"
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            with session.guard():
                send(own, bytearray(block))
            send = append
    return own


class ServedProgram:
    """A program at work in the native runtime of a device.

    Args:
        session: with the device.
        members: names of program, weights and library in the session's folder.
        folder: of the device, for files in place of memory; the session's if empty.
        offload_state: bytes from which on optimizer state lies in such files; 0 for none.
        beside: folder of the device with weights that the artifact leaves in files; empty for none.

    Raises:
        NativeError: the runtime there cannot open it.
        DeviceError: the device failed.
    """

    def __init__(
        self,
        session: RemoteSession,
        members: Sequence[str],
        folder: str = "",
        offload_state: int = 0,
        beside: str = "",
    ) -> None:
        self._session = session
        self._own: tuple[Any, ...] = ()
        self._own = (self.call("open", *members, folder, offload_state, beside),)

    def call(self, name: str, *arguments: Any, runs: int = 1) -> Any:
        """What a function of the server's returns, for this program.

        Raises:
            NativeError: the runtime there failed.
            DeviceError: the device did.
        """
        with self._session.guard(runs):
            try:
                function = self._session.function(f"odtc.program.{name}")
                return function(*self._own, *arguments)
            except FAILURES as error:
                if failed := _FAILED.search(str(error)):
                    raise NativeError(int(failed["code"]), failed["what"]) from error
                raise
