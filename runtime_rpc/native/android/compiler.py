"""Compiles C for Android's 64-bit ARM without an NDK.

Any compiler of C for 64-bit ARM will do, as nothing of a system is used: declarations of Android's
C library are our own, in headers that stand for several of C's each.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from odtc.backends.targets import parse_target
from odtc.core.errors import BuildError
from odtc.runtime_rpc.native.build import SMALL

# The first Android that has all that these headers declare.
LEAST_SDK = 23
# The target of Android's CPUs, whichever core.
TARGET = parse_target("android-cpu")
# What the runtime uses of Android, and what odtc-device does beside that.
RUNTIME_HEADER = Path(__file__).with_name("bionic.h")
DEVICE_HEADER = Path(__file__).with_name("bionic_device.h")

_FLAGS = (
    *("-std=c11", "-Os", "-fPIC", "-Wall", "-Wextra", "-Werror", "-D__ANDROID__"),
    *("-fvisibility=hidden", "-ffreestanding", "-fno-stack-protector", "-nostdinc"),
    *SMALL,
    "-mno-outline-atomics",  # they would be functions of a library that no phone has
)
_TRIPLE = f"--target=aarch64-linux-android{LEAST_SDK}"
_HINT = (
    "run `apt-get install clang` or `apt-get install gcc-aarch64-linux-gnu`, "
    "or let TVM_NDK_CC name the clang of an NDK"
)


def arm_compiler() -> list[str]:
    """The command of a compiler of C for 64-bit ARM, the first of the table below that there is.

    Raises:
        BuildError: there is none.
    """
    for candidate in _COMPILERS:
        command = candidate()
        if command:
            return command
    raise BuildError(
        "no C compiler for 64-bit ARM was found: tried TVM_NDK_CC, clang, clang-<version> and "
        "aarch64-linux-gnu-gcc",
        hint=_HINT,
    )


def made_from(compiler: Sequence[str], *words: str, files: Iterable[Path]) -> list[bytes]:
    """All that what is compiled follows from, for a key of a cache.

    Args:
        compiler: its command.
        words: further flags.
        files: sources and headers; those of the table are added.
    """
    program = os.stat(shutil.which(compiler[0]) or compiler[0])
    said = [*compiler, *_FLAGS, *words, str(program.st_size), str(program.st_mtime_ns)]
    parts = [" ".join(said).encode()]
    for path in (*files, RUNTIME_HEADER, DEVICE_HEADER):
        parts += [path.name.encode(), path.read_bytes()]
    return parts


def compile_objects(
    compiler: Sequence[str],
    sources: Iterable[Path],
    folder: Path,
    headers: tuple[Path, Iterable[str]],
    flags: Sequence[str],
    include: Sequence[Path],
) -> list[Path]:
    """Compiles each source.

    Args:
        compiler: its command.
        sources: in the order in which they are linked.
        folder: a new one, of the object files.
        headers: declarations, and the headers of C in whose place they are.
        flags: after those of all.
        include: folders of further headers.

    Returns:
        The object files.

    Raises:
        BuildError: the compiler cannot be started, or failed; with what it printed.
    """
    stand_ins = folder / "include"
    declarations, names = headers
    for name in names:
        (stand_ins / name).parent.mkdir(parents=True, exist_ok=True)
        (stand_ins / name).write_text(f'#include "{declarations}"\n')
    # The compiler's own headers, such as stdint.h.
    own = Path(_run([*compiler, "-print-file-name=include"]).strip())
    folders = [word for each in (own, stand_ins, *include) for word in ("-isystem", str(each))]
    objects = []
    for number, source in enumerate(sources):
        objects.append(folder / f"{number}-{source.stem}.o")
        command = [*compiler, *_FLAGS, *flags, *folders, "-c", str(source), "-o", str(objects[-1])]
        _run(command)
    return objects


def _run(command: Sequence[str]) -> str:
    """Runs a compiler; returns what it prints.

    Raises:
        BuildError: it cannot be started, or failed; with what it printed.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise BuildError(
            f"cannot start the compiler {command[0]}: {error.strerror or error}", hint=_HINT
        ) from error
    if done.returncode:
        raise BuildError(
            f"it does not compile for Android:\n{done.stderr.strip()[-2000:]}",
            where=command[0],
            hint=_HINT,
        )
    return done.stdout


def _ndk() -> list[str]:
    clang = os.environ.get("TVM_NDK_CC")
    return [clang, _TRIPLE] if clang else []


def _clang() -> list[str]:
    return ["clang", _TRIPLE] if shutil.which("clang") else []


def _versioned_clang() -> list[str]:
    folders = (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    found = {
        int(match[1]): str(path)
        for folder in folders
        for path in folder.glob("clang-*")
        if (match := re.fullmatch(r"clang-(\d+)", path.name)) and os.access(path, os.X_OK)
    }
    return [found[max(found)], _TRIPLE] if found else []


def _gcc() -> list[str]:
    name = "aarch64-linux-gnu-gcc"
    return [name] if shutil.which(name) else []


# In the order in which they are preferred. TVM_NDK_CC is the user's own choice of an NDK's clang.
_COMPILERS: tuple[Callable[[], list[str]], ...] = (_ndk, _clang, _versioned_clang, _gcc)
