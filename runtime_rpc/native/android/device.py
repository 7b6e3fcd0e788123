"""Builds odtc-device for Android's 64-bit ARM, without an NDK, or takes that of a wheel.

    sources, begin.c, bionic_device.h ─compiler─→ object files ─lld─→ odtc-device ─gate─→ a phone

It is what adb pushes to a phone: a program that Android's own loader starts, and which needs its C
library alone.
"""

import hashlib
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from odtc.core.disk.left_behind import temporary_folder
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.native.build import FOLDER as RUNTIME
from odtc.runtime_rpc.native.device.build import EXPORTED, NAME, identity_flags, source_folders

# Where a wheel has it, under a name that tells what it was made from.
PREBUILT = Path(__file__).parent / "prebuilt"

_BEGIN = Path(__file__).with_name("begin.c")
# Headers of C that the sources include, in place of which there is that one.
_HEADERS = (
    *("arpa/inet.h", "dirent.h", "dlfcn.h", "errno.h", "fcntl.h", "limits.h", "link.h", "math.h"),
    *("netinet/in.h", "netinet/tcp.h", "poll.h", "pthread.h", "sched.h", "signal.h", "stdio.h"),
    *("stdlib.h", "string.h", "sys/auxv.h", "sys/file.h", "sys/mman.h", "sys/prctl.h"),
    *("sys/resource.h", "sys/signalfd.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h"),
    *("sys/types.h", "sys/un.h", "sys/utsname.h", "sys/wait.h", "time.h", "unistd.h"),
)
# What no function reaches is left out; a structure whose first member is given is zero beyond it.
_FLAGS = (
    *("-ffunction-sections", "-fdata-sections", "-Wno-missing-field-initializers"),
    "-DODTC_GPUS",
)


def android_device() -> bytes:
    """The content of the program: that of a wheel, if it is of the sources beside it, or compiled.

    Raises:
        BuildError: there is no compiler or linker, or it failed, or Android would not start it.
        OSError: there is no room to compile it.
    """
    own = metadata.version("odtc")
    prebuilt = prebuilt_path(own)
    if prebuilt.is_file():
        return prebuilt.read_bytes()
    from odtc.runtime_rpc.native.android.compiler import arm_compiler, made_from

    compiler = arm_compiler()
    parts = made_from(compiler, *_FLAGS, own, files=(*_files(), Path(__file__)))
    return kept_library(parts, lambda output: compile_device(compiler, output, own))


def prebuilt_path(version: str) -> Path:
    """Where a wheel of a version, and of these sources, has the program; a checkout has none."""
    found = hashlib.sha256(version.encode())
    own = Path(__file__).parent
    for path in (*_files(), *sorted(own.glob("*.h")), *sorted(own.glob("*.py"))):
        found.update(b"%s\0%s\0" % (path.name.encode(), path.read_bytes()))
    return PREBUILT / f"{NAME}-{found.hexdigest()[:32]}"


def compile_device(compiler: Sequence[str], output: Path, version: str) -> None:
    """Compiles and links `output`, and checks that Android starts it.

    Args:
        compiler: its command.
        output: a new path.
        version: of odtc, which it tells clients.

    Raises:
        BuildError: the compiler or the linker failed, or Android would not start the program.
    """
    from odtc.backends.objects.elf import check_program
    from odtc.backends.objects.link import link_program
    from odtc.runtime_rpc.native.android.compiler import (
        DEVICE_HEADER,
        RUNTIME_HEADER,
        TARGET,
        compile_objects,
    )

    folders = source_folders()
    sources = [path for path in _files() if path.suffix == ".c"]
    flags = [*_FLAGS, *identity_flags(version)]
    with temporary_folder() as folder:
        objects = []
        # The runtime has functions that are called as some of the larger header.
        for header, is_runtime in ((RUNTIME_HEADER, True), (DEVICE_HEADER, False)):
            own = [each for each in sources if (each.parent == RUNTIME) == is_runtime]
            place = folder / header.stem
            objects += compile_objects(compiler, own, place, (header, _HEADERS), flags, folders)
        program = folder / NAME
        link_program(objects, program, TARGET, EXPORTED)
        check_program(program, TARGET)
        shutil.copyfile(program, output)


def _files() -> list[Path]:
    return [_BEGIN, *(path for each in source_folders() for path in sorted(each.glob("*.[ch]")))]
