"""The library of the native runtime: that of a wheel, or compiled here, once for each version.

build id of the wheel's ─┬─ is that of the sources ─────────────────→ library
                         └─ else: compiler of C ─→ user's cache ─→
"""

import hashlib
import platform
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from odtc.core.errors import BuildError
from odtc.core.process.cxx import cc_command
from odtc.core.process.native_library import kept_library

FOLDER = Path(__file__).parent / "runtime"
# Where a wheel has it compiled, by `odtc.runtime_rpc.native.wheel`; a checkout has none.
PREBUILT = Path(__file__).parent / "prebuilt" / "libodtc.so"
# None of it is hot, as kernels are elsewhere; and C has no exceptions, for which tables would be.
SMALL = (
    *("-falign-functions=1", "-falign-loops=1", "-fno-tree-vectorize"),
    *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
)
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared"),
    *("-Wl,-soname,libodtc.so", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
    *SMALL,
    "-Wl,-z,noseparate-code",  # a page between any two kinds of segments is a quarter of it
)
_LINKS = ("-lpthread", "-ldl", "-lm")
_OTHER = ", and that of this installation was compiled from other sources or for another machine"
_HINT = "run `apt-get install gcc libc6-dev`, or name a compiler of C in CC"


def runtime_library() -> bytes:
    """The content of the library; it is compiled unless the package or the cache has it.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
        OSError: there is no room to compile it.
    """
    prebuilt = PREBUILT.read_bytes() if PREBUILT.is_file() else b""
    if bytes.fromhex(source_id()) in prebuilt:
        return prebuilt
    compiler = compiler_of_c(_OTHER if prebuilt else "")
    made_from = [*(word.encode() for word in compiler), *_made_from()]
    return kept_library(made_from, lambda output: compile_runtime(compiler, output))


def source_id() -> str:
    """The build id of a library in a wheel, in hex: a hash of its sources, flags and machine."""
    return hashlib.sha256(b"\0".join([platform.machine().encode(), *_made_from()])).hexdigest()


def _made_from() -> list[bytes]:
    parts = [b" ".join(word.encode() for word in (*_FLAGS, *_LINKS))]
    for path in sorted(FOLDER.glob("*.[ch]")):
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
    raise BuildError(f"no compiler of C was found for the native runtime{beside}", hint=_HINT)


def compile_runtime(compiler: Sequence[str], output: Path, *flags: str) -> None:
    """Compiles the runtime to a shared library.

    Args:
        compiler: its command.
        output: the library to write.
        flags: after the usual ones.

    Raises:
        BuildError: the compiler failed; with what it printed.
    """
    sources = [str(path) for path in sorted(FOLDER.glob("*.c"))]
    command = [*compiler, *_FLAGS, *flags, *sources, "-o", str(output), *_LINKS]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BuildError(
            f"the native runtime does not compile:\n{done.stderr.strip()[-2000:]}",
            where=shlex.join(command[: len(compiler)]),
            hint=_HINT,
        )
