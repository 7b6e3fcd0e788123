"""Builds the native runtimes with the system's compiler, once for each version, and loads them.

Nothing is written into another package's folder.
"""

import functools
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from odtc.core.disk.files import check_programs
from odtc.core.errors import BuildError
from odtc.core.process.cxx import cxx_command
from odtc.core.process.native_library import kept_library, load_library

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
        OutputError: libraries cannot be loaded from the folder for temporary files.
    """
    import tvm  # noqa: F401 - the library refers to symbols of TVM's, which is there then

    content = runtime_library(RUNTIMES[kind])
    check_programs(tempfile.gettempdir())
    try:
        load_library(content)
    except OSError as error:
        raise BuildError(
            f"the {kind} runtime cannot be loaded: {error}",
            hint=f"run `apt-get install {RUNTIMES[kind].packages}`",
        ) from error


def runtime_library(runtime: Runtime) -> bytes:
    """The library of a runtime; it is compiled unless the cache has it.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
        OSError: there is no room to compile it.
    """
    compiler = _compiler(runtime)

    def build(path: Path) -> None:
        folders = [f"-L{folder / 'lib'}" for folder in _packages()]
        compile_runtime(runtime, path, compiler, [f"-l{runtime.library}", *folders])

    return kept_library(_made_from(runtime, compiler), build)


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


def _made_from(runtime: Runtime, compiler: Sequence[str]) -> list[bytes]:
    versions = [version(name) for name in ("apache-tvm", "apache-tvm-ffi")]
    command = " ".join((*compiler, *_FLAGS, *_includes()))
    sources = [path.read_bytes() for path in runtime.sources]
    return [*sources, *(each.encode() for each in (*versions, command))]
