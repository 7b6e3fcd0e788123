"""What an emulated phone runs: odtc-device for Android, or for Linux with an OpenCL device.

Or the server in Python with TVM's runtime, which results are compared with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from odtc.core.process.progress import Progress
from odtc.runtime_rpc.native.android.device import android_device
from odtc.runtime_rpc.native.device.build import NAME, compiler_for, device_program
from odtc.runtime_rpc.standin.android import emulated, write_android
from odtc.runtime_rpc.standin.gpu import build_gpu_root
from odtc.runtime_rpc.standin.root import (
    EMULATOR,
    PACKAGES_FOLDER,
    PYTHON,
    SERVER_FOLDER,
    add_mount_points,
    build_root,
)
from odtc.runtime_rpc.standin.server_files import write_server

_CPU = "cortex-a76"
_PROGRAM = "/system/bin/odtc-device"
# PoCL's compiled kernels, by hashes of their code: an emulated compiler takes a minute.
_COMPILED = "/tmp/pocl"  # noqa: S108
_PATHS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}  # noqa: S108


@dataclass(frozen=True)
class System:
    """What runs, and where.

    Attributes:
        root: its root folder, which stays as it is.
        command: the words that start the server there; its options follow.
        mounted: what is mounted into the root, by where.
        environment: of the server.
    """

    root: Path
    command: tuple[str, ...]
    mounted: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: _PATHS)


# Makes one; a folder is there for the time that the phone runs.
Making = Callable[[Path, Progress], System]


def android(folder: Path, progress: Progress) -> System:
    """Odtc-device, as a phone with Android has it."""
    progress("compiling odtc-device for Android")
    root = folder / "root"
    root.mkdir()
    add_mount_points(root)
    write_android(root)
    program = Path(f"{root}{_PROGRAM}")
    program.write_bytes(android_device())
    program.chmod(0o755)
    return System(root, (*emulated(EMULATOR, _CPU), _PROGRAM))


def linux_with_gpu(folder: Path, progress: Progress) -> System:
    """Odtc-device for Linux with an OpenCL device: PoCL is for glibc, not for Android."""
    root = build_gpu_root(progress)
    progress("compiling odtc-device for Linux")
    program = folder / NAME
    program.write_bytes(device_program(compiler_for("aarch64")))
    program.chmod(0o755)
    command = (EMULATOR, "-cpu", _CPU, f"{SERVER_FOLDER}/{NAME}")
    environment = {**_PATHS, "POCL_CACHE_DIR": _COMPILED}
    return System(root, command, {SERVER_FOLDER: folder, **_for_pocl(root)}, environment)


def _for_pocl(root: Path) -> Mapping[str, Path]:
    """What is mounted for PoCL: it finds its cores in /sys, and keeps kernels beside the root."""
    kept = root.with_name(f"{root.name}-kernels")
    kept.mkdir(mode=0o700, exist_ok=True)
    return {"/sys": Path("/sys"), _COMPILED: kept}


def python(folder: Path, progress: Progress) -> System:
    """The server in Python."""
    root = build_root(progress)
    write_server(folder)
    environment = {
        **_PATHS,
        "PYTHONPATH": f"{SERVER_FOLDER}:{PACKAGES_FOLDER}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TVM_USE_RUNTIME_LIB": "1",
    }
    emulator = (EMULATOR, "-cpu", _CPU)
    server = (PYTHON, "-m", "odtc.runtime_rpc.server", "--odtc", version("odtc"))
    return System(root, (*emulator, *server), {SERVER_FOLDER: folder}, environment)
