"""Those who connect to the server, until it is clear what they want; and those who only ask."""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.rpc.base import RPC_MAGIC

from odtc.runtime_rpc.server import wire

# Whoever has not said what it wants by then is sent away.
_HELLO_SECONDS = 10.0
# An answer is short: who does not take it is sent away, and the server goes on.
_SEND_SECONDS = 2.0


@dataclass(frozen=True)
class Call:
    """A client that wants a session.

    Attributes:
        key: what it shows, without `client:`.
        seconds: how long its session may last; 0 is without end.
    """

    key: str
    seconds: float


class Peer:
    """A connection.

    Args:
        connection: accepted.
        answer: gives the answer to a question.

    Attributes:
        socket: the connection.
        call: it wants a session; its socket is for that from then on.
    """

    def __init__(
        self, connection: socket.socket, answer: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        self.socket = connection
        self.call: Call | None = None
        self._answer = answer
        self._magic: int | None = None
        self._received = wire.Received()
        self._came = time.monotonic()
        connection.settimeout(_SEND_SECONDS)

    @property
    def is_late(self) -> bool:
        """Whether it has not said in time what it wants."""
        return self._magic != wire.GREETING and time.monotonic() - self._came > _HELLO_SECONDS

    def read(self) -> None:
        """Takes what has come.

        Raises:
            OSError: it has gone.
            ValueError: it speaks another language.
        """
        # TVM's client sends nothing behind its header before it has an answer.
        data = self.socket.recv(4096)
        if not data:
            raise ConnectionResetError("it has gone")
        self._received.add(data)
        if self._magic is None:
            self._magic = self._received.number()
        if self._magic == RPC_MAGIC:
            self._take_call()
        elif self._magic == wire.GREETING:
            self._take_questions()
        elif self._magic is not None:
            raise ValueError("another protocol")

    def accept(self, key: str) -> None:
        """Lets a session begin; the socket waits without end from here on.

        Args:
            key: of the device.
        """
        name = f"server:{key}".encode()
        self.socket.sendall(wire.number(RPC_MAGIC) + wire.number(len(name)) + name)
        self.socket.settimeout(None)

    def refuse(self) -> None:
        """Sends a client away that shows another key."""
        self.socket.sendall(wire.number(RPC_MAGIC + 2))

    def _take_call(self) -> None:
        text = self._received.text()
        if text is None:
            return
        name, *options = text.decode().split()
        if not name.startswith("client:"):
            raise ValueError("no client")
        seconds = [float(option[9:]) for option in options if option.startswith("-timeout=")]
        self.call = Call(name.removeprefix("client:"), seconds[0] if seconds else 0.0)

    def _take_questions(self) -> None:
        while (text := self._received.text()) is not None:
            question = json.loads(text)
            if not isinstance(question, dict):
                raise ValueError("no question")
            self.socket.sendall(wire.frame(self._answer(question)))
