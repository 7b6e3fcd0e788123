"""TVM's RPC tracker: the process that runs one, and the question how many phones are free.

    python -m odtc.runtime_rpc.standin.tracker LISTENER

LISTENER is the number of an inherited socket. It listens before the process starts, so the port is
known and nobody who connects is refused. The process ends when its standard input is closed.
"""

import os
import socket
import struct
import sys
import threading

from tvm.rpc import base, tracker

_NO_STOP_KEY = ""


def greet(connection: socket.socket) -> None:
    """Begins to talk to a tracker."""
    connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
    base.recvall(connection, 4)


def free_phones(connection: socket.socket, key: str) -> int:
    """How many phones of this key wait for a session.

    Args:
        connection: greeted by `greet`; its time limit holds.
        key: the device key.

    Raises:
        OSError: the tracker does not answer.
    """
    base.sendjson(connection, [base.TrackerCode.SUMMARY])
    _, summary = base.recvjson(connection)
    return summary["queue_info"].get(key, {"free": 0})["free"]


def _exit_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(listener: int) -> None:
    """Tracks until standard input is closed."""
    threading.Thread(target=_exit_with_stdin, daemon=True).start()
    tracker._tracker_server(socket.socket(fileno=listener), _NO_STOP_KEY)


if __name__ == "__main__":
    main(int(sys.argv[1]))
