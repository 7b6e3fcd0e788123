"""A session: TVM serves one client in this process, and what it may do with files is limited.

A client can run any code here, as it uploads libraries. The limits keep one from harming others by
mistake; they are no defence against malice.
"""

import json
import math
import os
import socket
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.rpc import _ffi_api

from odtc.runtime_rpc.file_memory import file_memory
from odtc.runtime_rpc.free_memory import available_bytes
from odtc.runtime_rpc.pages import Pages
from odtc.runtime_rpc.server.cores import core_speeds, use_cores
from odtc.runtime_rpc.server.measure.frequency import uncap_frequency
from odtc.runtime_rpc.server.measure.measuring import FUNCTIONS
from odtc.runtime_rpc.server.running import RUN_STEPS, run_steps

_allocated: list[int] = []


def serve(connection: socket.socket, folder: Path, about: dict[str, Any]) -> None:
    """Serves until the client goes.

    Args:
        connection: after the handshake.
        folder: of this session alone; the current folder from here on.
        about: the device's description of itself.
    """
    os.chdir(folder)
    _register("odtc.device_info", lambda: json.dumps(about | {"pid": os.getpid()}))
    _register("odtc.available_bytes", available_bytes)
    _register(
        "odtc.file_memory",
        lambda shape, dtype, path: file_memory(json.loads(shape), dtype, folder / path),
    )
    _register("odtc.pages", Pages)
    _register("odtc.core_speeds", lambda: json.dumps(core_speeds()))
    _register("odtc.use_cores", _use_cores)
    _register("odtc.watch_storage", _watch_storage)
    _register("odtc.watched_storage", lambda: json.dumps(_allocated))
    _register(RUN_STEPS, run_steps)
    for name, function in FUNCTIONS.items():
        _register(name, function)
    _register("tvm.rpc.server.workpath", lambda name: str(inside(folder, name)))
    _register("tvm.rpc.server.upload", lambda name, data: _write(inside(folder, name), data))
    _register("tvm.rpc.server.load_module", lambda name: _load(inside(folder, name)))
    try:
        _ffi_api.ServerLoop(connection.fileno())
    finally:
        uncap_frequency()


def inside(folder: Path, name: str) -> Path:
    """The file of that name in a session's folder.

    Raises:
        PermissionError: it would lie elsewhere.
    """
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise PermissionError(f"{name} is outside of the session's folder")
    return path


def _use_cores(cores: str, bind_caller: int) -> None:
    use_cores([int(core) for core in cores.split(",")], bind_caller=bool(bind_caller))


def _register(name: str, function: Any) -> None:
    tvm_ffi.register_global_func(name, function, override=True)


def _load(path: Path) -> tvm.runtime.Module:
    return tvm.runtime.load_module(str(path))


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all; TVM's own leaves half of it on a full disk, and is silent.

    Raises:
        OSError: there is no room.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _watch_storage(machine: tvm.runtime.Module) -> None:
    """Notes the bytes that a virtual machine asks its allocator for from here on."""

    def note(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> None:
        if before and name == "vm.builtin.alloc_storage":
            _allocated.append(math.prod(int(size) for size in arguments[1]))

    machine["set_instrument"](note)
