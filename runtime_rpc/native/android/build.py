"""Builds the runtime with its functions for the JVM for Android's 64-bit ARM, without an NDK.

    sources, bionic.h ─compiler─→ object files ─lld─→ libodtc.so ─gate─→ what Android loads

The linker is the one that kernels are linked by.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from odtc.backends.objects.elf import check_library
from odtc.backends.objects.link import link
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.native.android.compiler import (
    RUNTIME_HEADER,
    TARGET,
    arm_compiler,
    compile_objects,
    made_from,
)
from odtc.runtime_rpc.native.build import FOLDER

JAVA = FOLDER.with_name("java")
LIBRARY = "libodtc.so"
# Headers of C that the runtime and jni.h include, in place of which there is that one.
HEADERS = (
    *("dlfcn.h", "errno.h", "fcntl.h", "link.h", "math.h", "pthread.h", "sched.h", "stdio.h"),
    *("stdlib.h", "string.h", "sys/auxv.h", "sys/file.h", "sys/mman.h", "sys/stat.h"),
    *("sys/syscall.h", "time.h", "unistd.h"),
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
    files = [*sorted(FOLDER.glob("*.[ch]")), JAVA / "odtc_jni.c", Path(__file__)]
    parts = made_from(compiler, str(jni), files=files)
    return kept_library(parts, lambda output: compile_runtime(compiler, jni, output))


def compile_runtime(compiler: Sequence[str], jni: Path, output: Path) -> None:
    """Compiles and links `output`, and checks that Android loads it.

    Args:
        compiler: its command.
        jni: the folder of `jni.h` of a JDK.
        output: a new path.

    Raises:
        BuildError: the compiler or the linker failed, or Android would not load the library.
    """
    sources = [*sorted(FOLDER.glob("*.c")), JAVA / "odtc_jni.c"]
    with temporary_folder() as folder:
        include = (jni, jni / "linux", FOLDER)
        headers = (RUNTIME_HEADER, HEADERS)
        objects = compile_objects(compiler, sources, folder / "objects", headers, (), include)
        library = folder / LIBRARY
        link(objects, library, TARGET)
        check_library(library, TARGET, in_app=True)
        shutil.copyfile(library, output)
