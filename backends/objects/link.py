"""Links object files into the shared library that a phone, or this machine, loads; or a program.

All targets share one set of flags, so the library that is tested here is the kind that a phone
gets: pages of 16 KiB, every symbol bound when it is loaded, and the system's libraries by name, if
it calls anything of them. The linker is lld, found in one of several places, because GNU ld links
for one architecture only.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from odtc.backends.objects.system_libraries import INTERPRETER, write_stubs
from odtc.backends.targets import Target
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import BuildError

# Page size: Android 15 has phones with pages of 16 KiB. Both hash styles: old and new loaders. What
# LLVM says of source lines, and symbols that no loader reads, would be half of a library. All have
# the same symbols, and none may be given another's.
_FLAGS = (
    *("-z", "max-page-size=16384"),
    *("-z", "now"),
    *("-z", "relro"),
    *("-z", "noexecstack"),
    "--hash-style=both",
    "--strip-all",
    "--as-needed",
    "-Bsymbolic",
)

# A program at any address, as Android wants it; what no function reaches is left out. Variables of
# a library stay there, as Android's loader copies none.
_PROGRAM = ("-pie", f"--dynamic-linker={INTERPRETER}", "--gc-sections", "-z", "nocopyreloc")

_NDK_HINT = "TVM_NDK_CC names it: set that to the clang of an NDK, or unset it"


@dataclass(frozen=True)
class Linker:
    """A linker that was found.

    Attributes:
        command: the program and its leading arguments.
        driver: whether it is a compiler, which takes a linker's flags after `-Wl`.
    """

    command: tuple[str, ...]
    driver: bool = False

    def arguments(
        self,
        objects: Sequence[Path],
        output: Path,
        target: Target,
        identity: str = "",
        kind: Sequence[str] | None = None,
    ) -> list[str]:
        """The whole command line that links `objects` into `output`.

        Args:
            objects: files.
            output: a library, or of another kind.
            target: of it.
            identity: its build id; see `link`.
            kind: its flag, which compilers know, too, and further ones of linkers.
        """
        build_id = f"0x{identity}" if identity else "sha1"
        what, *others = kind or ("-shared", "-soname", output.name)
        flags = [*_FLAGS, f"--build-id={build_id}", *others]
        flags = [f"-Wl,{','.join(flags)}", "-nostdlib"] if self.driver else flags
        machine = [] if self.driver else ["-m", target.emulation]
        return [*self.command, what, *machine, *flags, "-o", str(output), *map(str, objects)]


def find_linker(target: Target) -> Linker:
    """The first linker of the table below that this machine has.

    Raises:
        BuildError: it has none.
    """
    for candidate in _CANDIDATES:
        linker = candidate(target)
        if linker:
            return linker
    raise BuildError(
        f"no linker for {target.name} was found: tried ld.lld, ld.lld-<version> and ziglang",
        hint="run `apt-get install lld` or `pip install ziglang`",
    )


def link(
    objects: Sequence[Path],
    output: Path,
    target: Target,
    identity: str = "",
    kind: Sequence[str] | None = None,
) -> None:
    """Links `objects` into the shared library `output`.

    `output` should be a new path: a process that has loaded an older library from the same path
    would be given that one back. `identity` is its build id, in hex; a hash of it if empty. `kind`
    are the linker's flags of another kind of output.

    Raises:
        BuildError: there is no linker, it cannot be started, or it failed; with what it printed.
    """
    linker = find_linker(target)
    name = " ".join(linker.command)
    try:
        with temporary_folder() as folder:
            inputs = [*objects, *write_stubs(target, folder)]
            done = subprocess.run(
                linker.arguments(inputs, output, target, identity, kind),
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
    except OSError as error:
        raise BuildError(
            f"cannot start the linker {name}: {error.strerror or error}",
            where=str(output),
            hint=_NDK_HINT if linker.driver else None,
        ) from error
    if done.returncode != 0:
        raise BuildError(
            f"the linker {name} failed with exit code {done.returncode}:\n"
            f"{done.stderr.strip() or 'it printed nothing'}",
            where=str(output),
        )
    if not output.exists():
        raise BuildError(
            f"the linker {name} ended without an error, and wrote nothing",
            where=str(output),
            hint=_NDK_HINT if linker.driver else None,
        )


def link_program(
    objects: Sequence[Path], output: Path, target: Target, exported: Sequence[str] = ()
) -> None:
    """Links `objects` into a program for Android, which begins at `_start`.

    Libraries that it loads find the functions that are `exported`.

    Raises:
        BuildError: there is no linker, it cannot be started, or it failed; with what it printed.
    """
    exports = [word for name in exported for word in ("-u", name, "--export-dynamic-symbol", name)]
    link(objects, output, target, kind=(*_PROGRAM, *exports))


def _ndk(target: Target) -> Linker | None:
    clang = os.environ.get("TVM_NDK_CC")
    return Linker((clang,), driver=True) if clang and "android" in target.triple else None


def _lld(_: Target) -> Linker | None:
    found = shutil.which("ld.lld")
    return Linker((found,)) if found else None


def _versioned_lld(_: Target) -> Linker | None:
    folders = (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    found = {
        int(match[1]): str(path)
        for folder in folders
        for path in folder.glob("ld.lld-*")
        if (match := re.fullmatch(r"ld\.lld-(\d+)", path.name)) and os.access(path, os.X_OK)
    }
    return Linker((found[max(found)],)) if found else None


def _ziglang(_: Target) -> Linker | None:
    found = importlib.util.find_spec("ziglang")
    return Linker((sys.executable, "-m", "ziglang", "ld.lld")) if found else None


# In the order in which they are preferred. TVM_NDK_CC is the user's own choice of an NDK's clang.
_CANDIDATES: tuple[Callable[[Target], Linker | None], ...] = (_ndk, _lld, _versioned_lld, _ziglang)
