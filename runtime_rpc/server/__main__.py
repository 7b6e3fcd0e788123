"""`python -m odtc.runtime_rpc.server`: serves on this device, until it is asked to stop."""

import argparse
import ctypes
import json
import os
import platform
import shutil
import struct
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm

from odtc.runtime_rpc.server.child import SESSION_PREFIX, SessionLimits
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.server.net.registration import Registration
from odtc.runtime_rpc.server.server import Server


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m odtc.runtime_rpc.server")
    add = parser.add_argument
    add("--listen", required=True, help="tcp:PORT of loopback (0: any), or abstract:NAME")
    add("--tracker", required=True, help="the same, of the tracker")
    add("--key", required=True, help="device key")
    add("--port", type=int, default=0, help="on the tracker's host (default: as of --listen)")
    add(
        "--folder",
        type=Path,
        required=True,
        help="of the sessions' files, each in a folder of its own there",
    )
    add("--odtc", required=True, help="version of odtc that this server is of")
    add("--files", help="a hash of the server's files")
    add("--emulated", action="store_true", help="the device is emulated")
    add("--idle", type=float, default=SessionLimits().idle, help="seconds between signs of life")
    add("--until-closed", action="store_true", help="end when standard input is closed")
    return parser


def about(odtc: str, *, emulated: bool) -> dict[str, Any]:
    """Returns a device's description of itself."""
    return {
        "odtc": odtc,
        "tvm": tvm.__version__,
        "ffi": version("apache-tvm-ffi"),
        "abi": f"{8 * struct.calcsize('P')}-bit {sys.byteorder}-endian",
        "machine": platform.machine(),
        "emulated": emulated,
        "cpus": os.cpu_count(),
    }


def main() -> None:
    """Serves one session after the other."""
    options = _parser().parse_args()
    # With TVM_USE_RUNTIME_LIB, TVM does not load this by itself; tuning and profiling need it.
    extra = Path(tvm.__path__[0], "lib", "libtvm_runtime_extra.so")
    ctypes.CDLL(str(extra), ctypes.RTLD_GLOBAL)
    # Where the server was brought to a phone, with a C library that is not Android's: a step for
    # Android asks for that by name, and the loader takes what is loaded under the name already.
    for names in sorted(Path(__file__).with_name(wire.NAMES).glob("*.so")):
        ctypes.CDLL(str(names))
    options.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    # Of a server that was killed; the folder may hold other things.
    for left in options.folder.glob(f"{SESSION_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    listener = wire.listen(options.listen)
    port = options.port or listener.getsockname()[1]
    registration = Registration(options.tracker, options.key, (wire.LOOPBACK, port))
    facts = about(options.odtc, emulated=options.emulated) | {"files": options.files}
    limits = SessionLimits(idle=options.idle)
    server = Server(listener, registration, options.key, facts, options.folder, limits)
    print(json.dumps(facts | {"pid": os.getpid()}), flush=True)
    server.run(sys.stdin.fileno() if options.until_closed else None)


if __name__ == "__main__":
    main()
