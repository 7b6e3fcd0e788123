"""Builds odtc-device for Linux, once for each version and machine."""

import hashlib
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from odtc.core.errors import BuildError
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.native.build import GPUS, compiler_of_c

FOLDER = Path(__file__).parent
NAME = "odtc-device"
_PARTS = (FOLDER, *(FOLDER / name for name in ("calls", "server", "session")))
_FLAGS = (
    *("-std=c11", "-O2", "-fPIE", "-pie", "-ffunction-sections", "-fdata-sections"),
    *("-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack", "-s"),
)
# What kernels that TVM compiles call by name: see calls/raised.h.
EXPORTED = ("TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts")
_EXPORTS = tuple(
    f"-Wl,{flag},{name}" for name in EXPORTED for flag in ("-u", "--export-dynamic-symbol")
)
_LINKS = ("-lpthread", "-ldl", "-lm")


def device_program(compiler: Sequence[str] | None = None, *flags: str) -> bytes:
    """The content of the program; it is compiled unless the cache has it.

    Args:
        compiler: the command of a compiler of C for the device's Linux; of this machine's if None.
        flags: after the usual ones.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
        OSError: there is no room to compile it.
    """
    command = list(compiler or compiler_of_c())
    # What it says of itself, too: a process may have looked at sources that have changed since.
    words = (*command, *_FLAGS, *_EXPORTS, *flags, *_LINKS, *identity_flags(version("odtc")))
    made_from = [b" ".join(word.encode() for word in words)]
    for path in sorted(path for part in source_folders() for path in part.glob("*.[ch]")):
        made_from += [path.name.encode(), path.read_bytes()]
    return kept_library(made_from, lambda output: compile_device(command, output, *flags))


@cache
def source_hash() -> str:
    """A hash of its sources, in hex, which it tells clients: the same on each system.

    A version is not enough, as programs of two checkouts may have the same.
    """
    found = hashlib.sha256()
    for path in sorted(path for part in source_folders() for path in part.glob("*.[ch]")):
        # Of a checkout on Windows, lines may end otherwise.
        content = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(b"%s\0%s\0" % (path.name.encode(), content))
    return found.hexdigest()[:16]


def identity_flags(odtc: str) -> tuple[str, ...]:
    """The compiler's flags for what the program says of itself.

    Args:
        odtc: version that it is of.
    """
    return f'-DODTC_VERSION="{odtc}"', f'-DODTC_SOURCES="{source_hash()}"'


def source_folders() -> tuple[Path, ...]:
    """Where its sources and their headers are; those of the runtime too."""
    return *GPUS.folders, *_PARTS


def compiler_for(machine: str) -> list[str]:
    """The command of a compiler of C for Linux on a machine, as `uname -m` has it.

    Raises:
        BuildError: there is none.
    """
    if machine == platform.machine():
        return compiler_of_c()
    if found := shutil.which(f"{machine}-linux-gnu-gcc"):
        return [found]
    raise BuildError(
        f"no C compiler for Linux on {machine} was found: {machine}-linux-gnu-gcc",
        hint=f"run `apt-get install gcc-{machine.replace('_', '-')}-linux-gnu`",
    )


def compile_device(compiler: Sequence[str], output: Path, *flags: str) -> None:
    """Compiles odtc-device.

    Args:
        compiler: its command.
        output: the program to write.
        flags: after the usual ones.

    Raises:
        BuildError: the compiler failed; with what it printed.
    """
    folders = source_folders()
    command = [
        *(*compiler, *_FLAGS, *_EXPORTS, *identity_flags(version("odtc")), *flags),
        *("-DODTC_GPUS", *(f"-I{folder}" for folder in folders)),
        *(str(path) for folder in folders for path in sorted(folder.glob("*.c"))),
        *("-o", str(output), *_LINKS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BuildError(
            f"odtc-device does not compile:\n{done.stderr.strip()[-2000:]}",
            where=shlex.join(compiler),
            hint="run `apt-get install gcc libc6-dev`, or name a C compiler in CC",
        )
