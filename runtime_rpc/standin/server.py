"""The program on the phone: TVM's RPC server, on loopback, until its standard input is closed.

    python server.py TRACKER_PORT KEY

It runs on the phone alone, where there is only Python's library and TVM, so it imports no odtc.
"""

import ctypes
import json
import math
import os
import platform
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.rpc import server as tvm_server

_LOOPBACK = "127.0.0.1"


@tvm_ffi.register_global_func("odtc.device_info")
def device_info() -> str:
    """What the phone is, as JSON. `pid` is the process of the session that asks."""
    return json.dumps(
        {
            "tvm": tvm.__version__,
            "machine": platform.machine(),
            "emulated": os.environ.get("ODTC_EMULATED") == "1",
            "pid": os.getpid(),
            "cpus": os.cpu_count(),
        }
    )


_allocated: list[int] = []


@tvm_ffi.register_global_func("odtc.watch_storage")
def watch_storage(machine: tvm.runtime.Module) -> None:
    """Notes the bytes that a virtual machine asks its allocator for from here on."""

    def note(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> None:
        if before and name == "vm.builtin.alloc_storage":
            _allocated.append(math.prod(int(size) for size in arguments[1]))

    machine["set_instrument"](note)


@tvm_ffi.register_global_func("odtc.watched_storage")
def watched_storage() -> str:
    """The bytes of each allocation that was watched, as JSON."""
    return json.dumps(_allocated)


def surviving(serve: Callable[..., None]) -> Callable[..., None]:
    """TVM stops to listen for good when a session crashes. This goes on to the next one."""

    def serve_session(connection: socket.socket, *arguments: Any) -> None:
        folder = os.getcwd()
        try:
            serve(connection, *arguments)
        except Exception as error:
            print(f"the session ended badly: {error}", file=sys.stderr)
        finally:
            os.chdir(folder)
            connection.close()

    return serve_session


def exit_with_stdin() -> None:
    """Ends the process when whoever started it closes its standard input, or dies."""
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(tracker_port: int, key: str) -> None:
    """Serves one session after the other."""
    threading.Thread(target=exit_with_stdin, daemon=True).start()
    # With TVM_USE_RUNTIME_LIB, TVM does not load this by itself; tuning and profiling need it.
    extra = Path(tvm.__path__[0], "lib", "libtvm_runtime_extra.so")
    ctypes.CDLL(str(extra), ctypes.RTLD_GLOBAL)
    tvm_server._serving = surviving(tvm_server._serving)
    # TVM's own class for this executes a second Python, or looks for a port in a range. The system
    # knows a free port.
    listener = socket.create_server((_LOOPBACK, 0))
    port = listener.getsockname()[1]
    tvm_server._listen_loop(listener, port, key, (_LOOPBACK, tracker_port), "", _LOOPBACK)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
