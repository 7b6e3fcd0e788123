"""Bytes of a device module as a module of TVM's: `module_of_bytes.cc`, which is compiled once."""

import functools
import shlex
import subprocess
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from odtc.core.disk.files import check_programs
from odtc.core.errors import BuildError
from odtc.core.process.cxx import cxx_command
from odtc.core.process.native_library import kept_library, load_library

_SOURCE = Path(__file__).with_suffix(".cc")
_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")
_HINT = "run `apt-get install g++`, or name a compiler in CXX"


def vulkan_module(data: bytes) -> Any:
    """A module of TVM's that is written into a library as these bytes.

    Raises:
        BuildError: there is no compiler, it failed, or what it built cannot be loaded.
        OutputError: libraries cannot be loaded from the folder for temporary files.
    """
    import tvm_ffi

    _load()
    return tvm_ffi.get_global_func("odtc.vulkan_module")(data)


@functools.cache
def _load() -> None:
    import tvm  # noqa: F401 - the library refers to symbols of TVM's, which is there then

    compiler = cxx_command()
    if not compiler:
        raise BuildError("no C++ compiler was found, which kernels for Vulkan need", hint=_HINT)
    command = [*compiler, *_FLAGS, *_includes(), str(_SOURCE)]
    versions = [version(name) for name in ("apache-tvm", "apache-tvm-ffi")]
    made_from = [_SOURCE.read_bytes(), *(each.encode() for each in (*versions, " ".join(command)))]
    content = kept_library(made_from, functools.partial(_compile, command))
    check_programs(tempfile.gettempdir())
    try:
        load_library(content)
    except OSError as error:
        raise BuildError(f"what writes kernels for Vulkan cannot be loaded: {error}") from error


def _compile(command: list[str], output: Path) -> None:
    done = subprocess.run(
        [*command, "-o", str(output)], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BuildError(
            f"{_SOURCE.name} does not compile:\n{done.stderr.strip()[-2000:]}",
            where=shlex.join(command[:1]),
            hint=_HINT,
        )


def _includes() -> list[str]:
    """Of TVM's two packages, found without importing them."""
    found = [find_spec(name) for name in ("tvm", "tvm_ffi")]
    tvm, ffi = (Path(spec.origin).parent for spec in found if spec and spec.origin)
    folders = (tvm / "include", ffi / "include", ffi / "3rdparty" / "dlpack" / "include")
    return [f"-I{folder}" for folder in folders]
