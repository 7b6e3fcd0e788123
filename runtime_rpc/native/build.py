"""The libraries of the native runtime: those of a wheel, or compiled here, once for each version.

One is for CPUs alone and small, the other for GPUs as well.

build id of the wheel's ─┬─ is that of the sources ─────────────────→ library
                         └─ else: compiler of C ─→ user's cache ─→
"""

import hashlib
import platform
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odtc.core.errors import BuildError
from odtc.core.process.cxx import cc_command
from odtc.core.process.native_library import kept_library

FOLDER = Path(__file__).parent / "runtime"
GPU_FOLDER = Path(__file__).parent / "gpu"
# Where a wheel has them compiled, by `odtc.runtime_rpc.native.wheel`; a checkout has none.
PREBUILT = Path(__file__).parent / "prebuilt"


@dataclass(frozen=True)
class Library:
    """A library of the runtime.

    Attributes:
        name: of its file.
        folders: with all of its sources.
        flags: that they are compiled with, beside the usual ones.
    """

    name: str
    folders: tuple[Path, ...]
    flags: tuple[str, ...] = ()

    @property
    def sources(self) -> Iterator[Path]:
        """Its files in C, sorted by name in each folder."""
        return (path for folder in self.folders for path in sorted(folder.glob("*.c")))

    @property
    def headers(self) -> Iterator[Path]:
        """Those that they include."""
        return (path for folder in self.folders for path in sorted(folder.glob("*.h")))


def _with_gpus() -> Library:
    interfaces = sorted(path.parent for path in GPU_FOLDER.glob("*/*.h"))
    folders = (FOLDER, GPU_FOLDER, *dict.fromkeys(interfaces))
    flags = ("-DODTC_GPUS", *(f"-I{folder}" for folder in folders))
    return Library("libodtc-gpu.so", folders, flags)


CPUS = Library("libodtc.so", (FOLDER,))
GPUS = _with_gpus()
# None of it is hot, as kernels are elsewhere; and C has no exceptions, for which tables would be.
SMALL = (
    *("-falign-functions=1", "-falign-loops=1", "-fno-tree-vectorize"),
    *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
)
_FLAGS = (
    *("-std=c11", "-Os", "-fPIC", "-fvisibility=hidden", "-shared"),
    *("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
    "-fno-plt",  # all symbols are bound at the start, so there is nothing to bind at a first call
    *SMALL,
    "-Wl,-z,noseparate-code",  # a page between any two kinds of segments is a quarter of it
)
_LINKS = ("-lpthread", "-ldl", "-lm")
_OTHER = ", and that of this installation was compiled from other sources or for another machine"
_HINT = "run `apt-get install gcc libc6-dev`, or name a C compiler in CC"


def runtime_library(library: Library = CPUS) -> bytes:
    """The content of a library; it is compiled unless the package or the cache has it.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
        OSError: there is no room to compile it.
    """
    path = PREBUILT / library.name
    prebuilt = path.read_bytes() if path.is_file() else b""
    if bytes.fromhex(source_id(library)) in prebuilt:
        return prebuilt
    compiler = compiler_of_c(_OTHER if prebuilt else "")
    made_from = [*(word.encode() for word in compiler), *_made_from(library)]
    return kept_library(made_from, lambda to: compile_runtime(compiler, to, library=library))


def source_id(library: Library = CPUS) -> str:
    """The build id of a library in a wheel, in hex: a hash of its sources, flags and machine."""
    made_from = [platform.machine().encode(), *_made_from(library)]
    return hashlib.sha256(b"\0".join(made_from)).hexdigest()


def _made_from(library: Library) -> list[bytes]:
    parts = [b" ".join(word.encode() for word in (*_FLAGS, *_LINKS)), library.name.encode()]
    for path in sorted((*library.sources, *library.headers)):
        parts += [path.name.encode(), path.read_bytes()]
    return parts


def compiler_of_c(beside: str = "") -> list[str]:
    """The command of a compiler.

    Args:
        beside: what else is said where there is none.

    Raises:
        BuildError: there is none.
    """
    if found := cc_command():
        return found
    raise BuildError(f"no C compiler was found for the native runtime{beside}", hint=_HINT)


def compile_runtime(
    compiler: Sequence[str], output: Path, *flags: str, library: Library = CPUS
) -> None:
    """Compiles a library of the runtime.

    Args:
        compiler: its command.
        output: the library to write.
        flags: after the usual ones.
        library: which one.

    Raises:
        BuildError: the compiler failed; with what it printed.
    """
    usual = (*_FLAGS, f"-Wl,-soname,{library.name}", *library.flags)
    command = [*compiler, *usual, *flags, *map(str, library.sources), "-o", str(output), *_LINKS]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BuildError(
            f"the native runtime does not compile:\n{done.stderr.strip()[-2000:]}",
            where=shlex.join(command[: len(compiler)]),
            hint=_HINT,
        )
