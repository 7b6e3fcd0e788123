"""What makes a step of a model, beside what the user asks for: this version, and this machine.

What were left out here would give the step of another odtc, or for another processor, without a
word; what is too much gives a compile. So each file of the package counts.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import odtc
from odtc.autoschedule.tuning.record import host_device
from odtc.backends.link import find_linker
from odtc.backends.targets import Target
from odtc.core.side_by_side import cores
from odtc.step_cache.unchanged import COARSE_NS

# Packages that take part in a compile.
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "highspy", "numpy", "onnx", "protobuf")
# Fields of /proc/cpuinfo by which LLVM tells processors apart, of x86 and of ARM.
_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cpu ", "features")
_CACHES = "__pycache__"
_ROOT, _TVM = Path(str(odtc.__file__)).parent, "tvm"


def made_by(target: Target) -> str:
    """All that makes a step for a target here, as text.

    Raises:
        BuildError: there is no linker for it.
    """
    command = find_linker(target).command
    program = os.stat(command[0])
    return json.dumps(
        {
            "odtc": _sources(_ROOT),
            "python": sys.version,
            "packages": [version(name) for name in _PACKAGES],
            "tvm": _libraries(_TVM),
            "linker": [command, program.st_size, program.st_mtime_ns],
            "machine": [platform.machine(), _processor(), cores(), repr(host_device(target))],
        }
    )


def is_as_loaded() -> bool:
    """Whether what makes a step is in files as this process has it, or will load it.

    One that began before an upgrade goes on with the old version, and a hash is of the new one.
    """
    latest = odtc.LOADED_NS - COARSE_NS
    files = (*_files(_ROOT), *_library_files(_TVM))
    return all(path.stat().st_ctime_ns <= latest for path in files)


@cache
def _sources(root: Path) -> str:
    """A hash of a package's files, wherever links say that they are."""
    found = hashlib.sha256()
    for path in _files(root):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(each for each in folders if each != _CACHES)
        yield from (Path(folder, name) for name in sorted(files))


def _libraries(package: str) -> list[tuple[str, int, int]]:
    """The libraries of a package, which may have been built here."""
    stats = [(path.name, path.stat()) for path in _library_files(package)]
    return [(name, each.st_size, each.st_mtime_ns) for name, each in stats]


def _library_files(package: str) -> list[Path]:
    """Paths of a package's libraries; it is not imported."""
    found = find_spec(package)
    root = Path(found.origin).parent if found and found.origin else Path()
    return sorted(root.glob("lib/*.so"))


def _processor() -> list[str]:
    """What the system says of its first processor."""
    said = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    lines = said.split("\n\n", maxsplit=1)[0].splitlines()
    return [line for line in lines if line.lower().startswith(_FIELDS)]
