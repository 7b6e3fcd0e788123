"""Builds the runtime with its functions for the JVM for Android's 64-bit ARM, without an NDK.

    sources, bionic.h ─compiler─→ object files ─lld─→ libodtc.so ─gate─→ what Android loads

Any compiler of C for 64-bit ARM will do, as nothing of a system is used: declarations of Android's
C library are our own, and the linker is the one that kernels are linked by.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from odtc.backends.objects.elf import check_library
from odtc.backends.objects.link import link
from odtc.backends.targets import parse_target
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import BuildError
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.native.build import FOLDER, SMALL

JAVA = FOLDER.with_name("java")
LIBRARY = "libodtc.so"
# The first Android that an app with this library runs on.
LEAST_SDK = 23
# The target of Android's CPUs, whichever core.
TARGET = parse_target("android-cpu")

_DECLARATIONS = Path(__file__).with_name("bionic.h")
# Headers of C that the runtime and jni.h include, in place of which there is that one.
_HEADERS = (
    *("dlfcn.h", "errno.h", "fcntl.h", "link.h", "math.h", "pthread.h", "sched.h", "stdio.h"),
    *("stdlib.h", "string.h", "sys/auxv.h", "sys/file.h", "sys/mman.h", "sys/stat.h"),
    *("sys/syscall.h", "time.h", "unistd.h"),
)
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-D__ANDROID__"),
    *("-fvisibility=hidden", "-ffreestanding", "-fno-stack-protector", "-nostdinc"),
    *SMALL,
    "-mno-outline-atomics",  # they would be functions of a library that no phone has
)
_TRIPLE = f"--target=aarch64-linux-android{LEAST_SDK}"
_HINT = (
    "run `apt-get install clang` or `apt-get install gcc-aarch64-linux-gnu`, "
    "or let TVM_NDK_CC name the clang of an NDK"
)


def android_runtime(jni: Path) -> bytes:
    """The content of `libodtc.so`; it is compiled unless the cache has it.

    Args:
        jni: the folder of `jni.h` of a JDK.

    Raises:
        BuildError: there is no compiler or linker, or it failed, or Android would not load it.
        OSError: there is no room to compile it.
    """
    compiler = arm_compiler()
    program = os.stat(shutil.which(compiler[0]) or compiler[0])
    sources = [*sorted(FOLDER.glob("*.[ch]")), JAVA / "odtc_jni.c", _DECLARATIONS, Path(__file__)]
    words = [*compiler, *_FLAGS, str(jni), str(program.st_size), str(program.st_mtime_ns)]
    made_from = [" ".join(words).encode()]
    for path in sources:
        made_from += [path.name.encode(), path.read_bytes()]
    return kept_library(made_from, lambda output: compile_runtime(compiler, jni, output))


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
        "no compiler of C for 64-bit ARM was found: tried TVM_NDK_CC, clang, clang-<version> and "
        "aarch64-linux-gnu-gcc",
        hint=_HINT,
    )


def compile_runtime(compiler: Sequence[str], jni: Path, output: Path) -> None:
    """Compiles and links `output`, and checks that Android loads it.

    Args:
        compiler: its command.
        jni: the folder of `jni.h` of a JDK.
        output: a new path.

    Raises:
        BuildError: the compiler or the linker failed, or Android would not load the library.
    """
    with temporary_folder() as folder:
        include = folder / "include"
        for name in _HEADERS:
            (include / name).parent.mkdir(parents=True, exist_ok=True)
            (include / name).write_text(f'#include "{_DECLARATIONS}"\n')
        folders = [FOLDER, _own_headers(compiler), include, jni, jni / "linux"]
        flags = [*_FLAGS, *(word for each in folders for word in ("-isystem", str(each)))]
        objects = []
        for source in [*sorted(FOLDER.glob("*.c")), JAVA / "odtc_jni.c"]:
            objects.append(folder / f"{source.stem}.o")
            _run([*compiler, *flags, "-c", str(source), "-o", str(objects[-1])])
        library = folder / LIBRARY
        link(objects, library, TARGET)
        check_library(library, TARGET, in_app=True)
        shutil.copyfile(library, output)


def _own_headers(compiler: Sequence[str]) -> Path:
    """The folder of the headers that a compiler brings itself, such as stdint.h."""
    return Path(_run([*compiler, "-print-file-name=include"]).strip())


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
            f"the native runtime does not compile for Android:\n{done.stderr.strip()[-2000:]}",
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
