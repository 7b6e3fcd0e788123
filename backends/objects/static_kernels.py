"""The library of a step whose kernels are linked into an app: an archive of their object files.

iOS loads no code but what an app comes with. So there is no library that is loaded, and TVM, which
loads one, runs no such step: the archive has what `odtc export-app` makes a static library of.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.backends.objects.mach_o import symbols_of
from odtc.backends.objects.system_libraries import system_libraries
from odtc.backends.targets import Target
from odtc.core.artifact.library_file import IDENTITY
from odtc.core.artifact.static_library import members_of, static_library
from odtc.core.errors import BuildError

if TYPE_CHECKING:
    from odtc.backends.objects.kernel_objects import Objects

LAUNCH = "__TVMBackendParallelLaunch"

_NAMES = "names"
_SUFFIX = ".o"
# Places that the native runtime fills in with nothing: see `runtime_rpc/native/runtime/library.c`.
_SLOTS = ("__TVMFFI", "__TVMBackend")


@dataclass(frozen=True)
class StaticKernels:
    """Kernels as object files.

    Attributes:
        files: the object files, by the symbols of the kernels that each has.
        symbols: of the kernels, by their names in the program.
    """

    files: Mapping[str, bytes]
    symbols: Mapping[str, str]


def write_kernels(objects: "Objects", output: Path, identity: str) -> None:
    """Writes the archive of a step.

    Args:
        objects: its kernels.
        output: a new path.
        identity: what the archive is bound to, in hex, as a library is by its build id.
    """
    symbol_of = {key: objects.symbols[f"__tvm_ffi_{name}"] for name, key in objects.keys.items()}
    files = {f"{symbol_of[key]}{_SUFFIX}": content for key, content in objects.files.items()}
    names = json.dumps(objects.symbols, sort_keys=True).encode()
    output.write_bytes(static_library({IDENTITY: identity.encode(), _NAMES: names} | files))


def read_kernels(path: Path) -> StaticKernels:
    """The kernels that `write_kernels` wrote.

    Raises:
        ValueError: it is no such archive.
    """
    members = members_of(path.read_bytes())
    if not members.keys() >= {IDENTITY, _NAMES}:
        raise ValueError("it is not an archive of kernels")
    files = {
        name.removesuffix(_SUFFIX): content
        for name, content in members.items()
        if name.endswith(_SUFFIX)
    }
    return StaticKernels(files, json.loads(members[_NAMES]))


def check_kernels(path: Path, target: Target) -> None:
    """Checks that an app can be linked with the kernels at `path`.

    Raises:
        BuildError: it cannot; all that is wrong is listed.
    """
    known = {name for each in system_libraries(target, tvm=False).values() for name in each}
    wrong = set()
    for symbols in map(symbols_of, read_kernels(path).files.values()):
        defined = {symbol.name for symbol in symbols if symbol.is_defined}
        undefined = {symbol.name for symbol in symbols} - defined - known
        wrong |= {f"it leaves the symbol {name} undefined: no library has it" for name in undefined}
        slots = {name for name in defined if name.startswith(_SLOTS)} - {LAUNCH}
        wrong |= {f"it calls {name.removeprefix('__')}, which no app has" for name in slots}
    if wrong:
        raise BuildError(
            f"the kernels cannot be linked into an app for {target.name}:\n"
            + "\n".join(f"  - {each}" for each in sorted(wrong)),
            where=str(path),
        )
