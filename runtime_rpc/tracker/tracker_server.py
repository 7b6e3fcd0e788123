"""The process of a tracker, TVM's own with bounds.

    python -m odtc.runtime_rpc.tracker.tracker_server LISTENER
    python -m odtc.runtime_rpc.tracker.tracker_server PORT --detached

LISTENER is the number of an inherited socket. It listens before the process starts, so the port is
known and no connection is refused. The process ends when its standard input is closed. If it is
detached, it listens at a port of loopback itself, as sockets are not inherited everywhere, and
standard input is the key of the message that ends it.
"""

import os
import socket
import sys
import threading

from odtc.core.process.without_torch import leave_out_torch

_NO_STOP_KEY = ""
_LOOPBACK = "127.0.0.1"


def _exit_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(number: int, *, detached: bool) -> None:
    """Tracks until it is asked to end.

    Args:
        number: of the port, if detached; else of the socket.
        detached: whether it goes on without the process that started it.
    """
    # Before TVM is imported, which takes a second.
    here = (_LOOPBACK, number)
    listener = socket.create_server(here) if detached else socket.socket(fileno=number)
    leave_out_torch()
    from odtc.runtime_rpc.tracker.guarded_tracker import track

    if detached:
        track(listener, sys.stdin.read())
    else:
        threading.Thread(target=_exit_with_stdin, daemon=True).start()
        track(listener, _NO_STOP_KEY)


if __name__ == "__main__":
    main(int(sys.argv[1]), detached="--detached" in sys.argv)
