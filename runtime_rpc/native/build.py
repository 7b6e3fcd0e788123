"""Builds the native runtime with the system's compiler of C, once for each version."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from odtc.core.errors import BuildError
from odtc.core.process.cxx import cc_command
from odtc.core.process.native_library import kept_library

FOLDER = Path(__file__).parent / "runtime"
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared"),
    *("-Wl,-soname,libodtc.so", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
    "-Wl,-z,noseparate-code",  # a page between any two kinds of segments is a quarter of it
)
_LINKS = ("-lpthread", "-ldl", "-lm")
_HINT = "run `apt-get install gcc libc6-dev`, or name a compiler of C in CC"


def runtime_library() -> bytes:
    """The content of the library; it is compiled unless the cache has it.

    Raises:
        BuildError: there is no compiler, or it failed; with what it printed.
        OSError: there is no room to compile it.
    """
    compiler = compiler_of_c()
    sources = sorted(FOLDER.glob("*.[ch]"))
    made_from = [b" ".join(word.encode() for word in (*compiler, *_FLAGS, *_LINKS))]
    for path in sources:
        made_from += [path.name.encode(), path.read_bytes()]
    return kept_library(made_from, lambda output: compile_runtime(compiler, output))


def compiler_of_c() -> list[str]:
    """The command of a compiler.

    Raises:
        BuildError: there is none.
    """
    if found := cc_command():
        return found
    raise BuildError("no compiler of C was found for the native runtime", hint=_HINT)


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
