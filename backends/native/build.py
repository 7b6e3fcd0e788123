"""Builds the native runtimes with the system's compiler, once for each version, and loads them.

A built library lies in the user's cache (`$XDG_CACHE_HOME`, or `~/.cache`) under the hash of all
that it is made from. Nothing is written into another package's folder.
"""

import ctypes
import functools
import hashlib
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from odtc.core.cxx import cxx_command
from odtc.core.errors import BuildError
from odtc.core.files import cache_folder
from odtc.core.left_behind import temporary_folder

_SOURCES = Path(__file__).parent
_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")


@dataclass(frozen=True)
class Runtime:
    """A native runtime.

    Attributes:
        kind: as TVM calls the interface.
        library: that it is linked with.
        packages: of Debian, with all that its build needs.
        headers: of ours, that it includes.
    """

    kind: str
    library: str
    packages: str
    headers: tuple[str, ...]

    @property
    def sources(self) -> list[Path]:
        """The file to compile, and those that it includes."""
        return [_SOURCES / name for name in (f"{self.kind}.cc", *self.headers)]


RUNTIMES = {
    "opencl": Runtime(
        "opencl",
        "OpenCL",
        "g++ ocl-icd-opencl-dev",
        ("device_module.h", "opencl_devices.h"),
    ),
    "vulkan": Runtime(
        "vulkan",
        "vulkan",
        "g++ libvulkan-dev",
        ("device_module.h", "vulkan_device.h", "vulkan_memory.h", "vulkan_queue.h"),
    ),
}


@functools.cache
def load_runtime(kind: str) -> None:
    """Lets this process's TVM use devices of a kind.

    Raises:
        BuildError: there is no compiler, it failed, or what it built cannot be loaded.
    """
    import tvm  # noqa: F401 - the library refers to symbols of TVM's, which is there then

    path = built(RUNTIMES[kind])
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(
            f"the {kind} runtime cannot be loaded: {error}",
            where=str(path),
            hint=f"run `apt-get install {RUNTIMES[kind].packages}`",
        ) from error


def built(runtime: Runtime) -> Path:
    """The library of a runtime; it is compiled unless the cache has it.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
    """
    path = _cache() / f"{runtime.kind}-{_hash(runtime)}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path.parent) as folder:
            made = folder / path.name
            folders = [f"-L{folder / 'lib'}" for folder in _packages()]
            links = [f"-l{runtime.library}", *folders]
            compile_runtime(runtime, made, _compiler(runtime), links)
            # Another process may have been faster; both libraries are the same.
            made.replace(path)
    return path


def compile_runtime(
    runtime: Runtime, output: Path, compiler: Sequence[str], links: Sequence[str]
) -> None:
    """Compiles a runtime.

    Args:
        runtime: the runtime.
        output: the library to write.
        compiler: its command.
        links: the interface's library, and where TVM's are.

    Raises:
        BuildError: the compiler failed; with what it printed.
    """
    command = [*compiler, *_FLAGS, *_includes(), str(runtime.sources[0]), "-o", str(output)]
    command += [*links, "-ltvm_runtime", "-ltvm_ffi"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BuildError(
            f"the {runtime.kind} runtime does not compile:\n{done.stderr.strip()[-2000:]}",
            where=shlex.join(command[:1]),
            hint=f"run `apt-get install {runtime.packages}`",
        )


def _compiler(runtime: Runtime) -> list[str]:
    if found := cxx_command():
        return found
    raise BuildError(
        f"no C++ compiler was found for the {runtime.kind} runtime",
        hint=f"run `apt-get install {runtime.packages}`, or name one in CXX",
    )


def _includes() -> list[str]:
    tvm, ffi = _packages()
    folders = (tvm / "include", ffi / "include", ffi / "3rdparty" / "dlpack" / "include")
    return [f"-I{folder}" for folder in folders]


def _packages() -> tuple[Path, Path]:
    """The folders of TVM's two packages, found without importing them."""
    found = [find_spec(name) for name in ("tvm", "tvm_ffi")]
    first, second = (Path(spec.origin).parent for spec in found if spec and spec.origin)
    return first, second


def _hash(runtime: Runtime) -> str:
    parts = [path.read_bytes() for path in runtime.sources]
    parts += [version(name).encode() for name in ("apache-tvm", "apache-tvm-ffi")]
    parts += [" ".join((*_compiler(runtime), *_FLAGS, *_includes())).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _cache() -> Path:
    return cache_folder() / "native"
