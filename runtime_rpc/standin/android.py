"""What stands for Android on an emulated phone: its loader and C library, which are glibc's there.

A program for Android finds them by the names that it asks for. Where bionic calls something
otherwise, a small library of that name (`libc.c`) has it, and leads to glibc for all else.
"""

import shutil
from pathlib import Path

from odtc.backends.objects.stub_library import stub_library
from odtc.backends.objects.system_libraries import INTERPRETER
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.standin.tools import find_tool, run_tool

LIBRARIES = "/system/lib64"

_COMPILER = "aarch64-linux-gnu-gcc"
_SOURCE = Path(__file__).with_name("libc.c")
_LOADER = "ld-linux-aarch64.so.1"
_OF_GLIBC = {"libc.so": "libc.so.6", "libm.so": "libm.so.6", "libdl.so": "libdl.so.2"}
_HINT = "run `apt-get install gcc-aarch64-linux-gnu`"


def emulated(emulator: str, core: str) -> list[str]:
    """The words that start a program for Android on a phone; it follows.

    Args:
        emulator: its path there.
        core: of an emulated CPU.
    """
    return [emulator, "-cpu", core, "-E", f"LD_LIBRARY_PATH={LIBRARIES}"]


def write_android(root: Path) -> None:
    """Writes the loader and the libraries into the root folder of a phone.

    Raises:
        BuildError: the compiler for 64-bit ARM is missing, or failed.
    """
    compiler = find_tool(_COMPILER)
    folder = Path(f"{root}{LIBRARIES}")
    folder.mkdir(parents=True, exist_ok=True)
    loader = Path(f"{root}{INTERPRETER}")
    loader.parent.mkdir(parents=True, exist_ok=True)
    _copy(compiler, _LOADER, loader)
    for name, own in _OF_GLIBC.items():
        _copy(compiler, own, folder / own)
        (folder / name).write_bytes(stub_library(name, "aarch64", (), (own,)))
    made_from = [_SOURCE.read_bytes(), compiler.encode()]
    (folder / "libc.so").write_bytes(kept_library(made_from, lambda path: _compile(compiler, path)))


def _copy(compiler: str, name: str, to: Path) -> None:
    """Copies a file of the compiler's own system."""
    found = run_tool([compiler, f"-print-file-name={name}"], hint=_HINT).strip()
    shutil.copyfile(found, to)
    to.chmod(0o755)


def _compile(compiler: str, output: Path) -> None:
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    named = ["-Wl,-soname,libc.so", "-o", str(output)]
    run_tool([compiler, *flags, str(_SOURCE), *named], hint=_HINT)
