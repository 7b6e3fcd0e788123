"""The libraries of a wheel: compiled, tried, and the oldest Linux that they run on.

`python -m odtc.runtime_rpc.native.wheel` writes them into the package that it is run in, and prints
the platform of the wheel's name. `setup.py` runs it in what a wheel is made of. Where there is no
compiler it fails: a wheel without the runtime would train nothing, and say so on the machine that
it is installed on, long after.
"""

import platform
import re
import sys
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from odtc.core.errors import BuildError, OdtcError
from odtc.core.process.native_library import load_library
from odtc.runtime_rpc.native.build import (
    CPUS,
    GPUS,
    PREBUILT,
    Library,
    compile_runtime,
    compiler_of_c,
    source_id,
)
from odtc.runtime_rpc.native.interface import bind, bind_gpus

# What is on every Linux with glibc, by PEP 600; the loader has another name on each machine.
_LIBRARIES = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d")
_VERSION = re.compile(r"GLIBC_(\d+)\.(\d+)(\.\d+)?")
# Of glibc. No Python that odtc runs in has wheels for an older one.
_OLDEST = (2, 17)


def write_runtime(output: Path, library: Library = CPUS) -> None:
    """Compiles a library, with the hash of its sources as its build id, and loads it once.

    Raises:
        BuildError: there is no C compiler, it failed, or what it made is not for this machine.
    """
    output.parent.mkdir(exist_ok=True)
    named = f"-Wl,--build-id=0x{source_id(library)}"
    compile_runtime(compiler_of_c(), output, named, "-s", library=library)
    content = output.read_bytes()
    try:
        (bind if library is CPUS else bind_gpus)(load_library(content))
    except (OSError, AttributeError) as error:
        raise BuildError(f"the native runtime cannot be loaded here: {error}") from error
    if bytes.fromhex(source_id(library)) not in content:
        raise BuildError("the linker gives the native runtime no build id")


def platform_tag(*libraries: Path) -> str:
    """The platform of a wheel with libraries, as the names of wheels have it.

    `manylinux_2_34_x86_64` is any Linux whose glibc is 2.34 or newer; `linux_x86_64`, without a
    promise, one that is like this machine.
    """
    machine = platform.machine()
    needed: list[str] = []
    versions: list[str] = []
    for library in libraries:
        with library.open("rb") as file:
            elf = ELFFile(file)
            dynamic = [each for each in elf.iter_segments() if isinstance(each, DynamicSegment)]
            tags: list[Any] = [tag for each in dynamic for tag in each.iter_tags("DT_NEEDED")]
            needed += [tag.needed for tag in tags]
            asking = [each for each in elf.iter_sections() if isinstance(each, GNUVerNeedSection)]
            listed = [auxiliary for each in asking for _, auxiliary in each.iter_versions()]
            versions += [version.name for auxiliary in listed for version in auxiliary]
    found = [_VERSION.fullmatch(name) for name in versions]
    if not found or None in found or not all(map(_LIBRARIES.fullmatch, needed)):
        return f"linux_{machine}"
    asked = [(int(each[1]), int(each[2])) for each in found if each]
    major, minor = max(_OLDEST, *asked)
    return f"manylinux_{major}_{minor}_{machine}"


def main() -> int:
    """Writes the libraries, and prints the platform; both need the same of it."""
    try:
        for library in (CPUS, GPUS):
            write_runtime(PREBUILT / library.name, library)
    except OdtcError as error:
        print(f"error: a wheel holds the native runtime, compiled: {error}", file=sys.stderr)
        return error.exit_code
    print(platform_tag(*(PREBUILT / each.name for each in (CPUS, GPUS))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
