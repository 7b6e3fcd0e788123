"""The files of this package and of TVM's libraries: what makes a step, whoever is asked for one."""

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from odtc.core import version

# The clock of a file system is as coarse as this.
COARSE_NS = 20_000_000

_CACHES = "__pycache__"
_ROOT, _TVM = Path(__file__).parents[2], "tvm"


def sources() -> str:
    """A hash of the files of this package."""
    return sources_of(_ROOT)


@cache
def sources_of(root: Path) -> str:
    """A hash of a package's files, wherever links say that they are."""
    found = hashlib.sha256()
    for path in map(Path, _files(root)):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def libraries(package: str = _TVM) -> list[tuple[str, int, int]]:
    """The libraries of a package, which may have been built here: name, bytes and time of each."""
    stats = [(path.name, path.stat()) for path in _library_files(package)]
    return [(name, each.st_size, each.st_mtime_ns) for name, each in stats]


def is_as_loaded() -> bool:
    """Whether what makes a step is in files as this process has it, or will load it.

    One that began before an upgrade goes on with the old version, and a hash is of the new one.
    """
    latest = version.LOADED_NS - COARSE_NS
    files = (*_files(_ROOT), *_library_files(_TVM))
    return all(os.stat(path).st_ctime_ns <= latest for path in files)


def _files(root: Path) -> Iterator[str]:
    """Paths of a package's files, as text: each compile looks at some hundreds of them."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(each for each in folders if each != _CACHES)
        yield from (os.path.join(folder, name) for name in sorted(files))


def _library_files(package: str) -> list[Path]:
    """Paths of a package's libraries; it is not imported."""
    found = find_spec(package)
    root = Path(found.origin).parent if found and found.origin else Path()
    return sorted(root.glob("lib/*.so"))
