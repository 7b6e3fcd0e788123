"""C for iOS without Apple's tools: clang and lld, against declarations of our own."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from odtc.backends.objects.mach_o import symbols_of
from odtc.runtime_rpc.native.android.build import HEADERS
from odtc.runtime_rpc.native.android.compiler import RUNTIME_HEADER

PROGRAMS = Path(__file__).with_name("programs")
_TRIPLE = "--target=arm64-apple-ios15.0"
# Of the system, what kernels may call beside what objects do.
_CALLED = {"powf", "bzero", "memset", "memcpy", "memset_pattern16"}
_VERSIONS = range(22, 13, -1)


def first_of(name: str) -> str | None:
    """The path of a tool of LLVM's, of the newest version."""
    names = (name, *(f"{name}-{version}" for version in _VERSIONS))
    return next((found for each in names if (found := shutil.which(each))), None)


CLANG, LINKER, NM = first_of("clang"), first_of("ld64.lld"), first_of("llvm-nm")


def compile_objects(sources: Iterable[Path], folders: Sequence[Path], place: Path) -> list[Path]:
    """Object files for iOS of sources of C, in a folder."""
    for name in (*HEADERS, "sys/sysctl.h"):
        (include := place / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        include.write_text(f'#include "{PROGRAMS / "darwin.h"}"\n')
    flags = [_TRIPLE, "-std=c11", "-O1", "-ffreestanding", "-Wall", "-Wextra", "-Werror"]
    flags += ["-nostdlibinc", *(f"-I{each}" for each in (*folders, place / "include"))]
    flags += [f"-I{RUNTIME_HEADER.parent}"]
    objects = []
    for source in sources:
        objects.append(place / f"{source.stem}.o")
        command = [str(CLANG), *flags, "-c", str(source), "-o", str(objects[-1])]
        subprocess.run(command, check=True)
    return objects


def link_image(objects: Sequence[Path], library: Path, output: Path) -> None:
    """Links a library for iOS; what is not ours is said to be the system's."""
    left = {each.name for path in objects for each in symbols_of(path.read_bytes())} | _CALLED
    symbols = ", ".join(f"_{name}" for name in sorted(left) if not name.startswith("odtc_"))
    system = output.with_name("libSystem.tbd")
    system.write_text(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-ios ]\n"
        "install-name: '/usr/lib/libSystem.B.dylib'\nexports:\n"
        f"  - targets: [ arm64-ios ]\n    symbols: [ {symbols}, dyld_stub_binder ]\n...\n"
    )
    command = [str(LINKER), "-arch", "arm64", "-platform_version", "ios", "15.0", "15.0", "-dylib"]
    said = subprocess.run([str(LINKER), "--help"], capture_output=True, text=True, check=False)
    # Newer ones write what dyld is to do in a form that the tests' loader does not read.
    command += ["-no_fixup_chains"] if "no_fixup_chains" in said.stdout else []
    subprocess.run(
        [*command, *map(str, (*objects, library, system)), "-o", str(output)], check=True
    )
