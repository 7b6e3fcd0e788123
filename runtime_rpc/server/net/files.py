"""The files that the server's loop waits for, by epoll where the system has it."""

import selectors
import socket

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
File = int | socket.socket


class Files:
    """Files, and the events to wait for at each."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def want(self, file: File, events: int) -> None:
        """Waits for these events at a file from here on, and for no others.

        Raises:
            PermissionError: the file cannot be polled, such as one on a disk.
        """
        known = self._selector.get_map().get(file)
        if known is None:
            self._selector.register(file, events)
        elif known.events != events:
            self._selector.modify(file, events)

    def forget(self, file: File) -> None:
        """Stops waiting for a file; to be called before it is closed.

        A session's process has a copy of it for a moment, so closing it is not enough.
        """
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def wait(self, seconds: float) -> dict[int, int]:
        """Waits, and returns the events of each file that is ready, by its number."""
        return {key.fd: events for key, events in self._selector.select(seconds)}

    def close(self) -> None:
        """Closes what it waits with, and none of the files."""
        self._selector.close()
