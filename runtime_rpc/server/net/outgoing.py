"""Bytes to send to a peer that may not read them; sending never blocks."""

import socket
import time
from contextlib import suppress


class Outgoing:
    """Bytes that wait to be sent.

    Args:
        connection: it does not block.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = bytearray()
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._data)

    def put(self, data: bytes) -> None:
        """Queues bytes and sends as much as the other side takes.

        Raises:
            OSError: the other side has gone.
        """
        if not self._data:
            self._since = time.monotonic()
        self._data += data
        self.flush()

    def flush(self) -> None:
        """Sends as much as the other side takes.

        Raises:
            OSError: the other side has gone.
        """
        with suppress(BlockingIOError):
            while self._data:
                del self._data[: self._connection.send(self._data)]

    @property
    def waited(self) -> float:
        """Seconds since the queue was last empty."""
        return time.monotonic() - self._since if self._data else 0.0
