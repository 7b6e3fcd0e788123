"""The inner loops of memory plans in C++, built with the user's compiler where there is one.

Plans are looked for in Python, whose inner loops run once for each task of each attempt: of a
network that is most of the time. What is here is the same, and finds the same plans; where there is
no compiler, Python does it.
"""

import ctypes
import functools
import hashlib
import subprocess
from pathlib import Path

from odtc.core.content_store import ContentStore
from odtc.core.cxx import cxx_command
from odtc.core.files import cache_folder
from odtc.core.left_behind import temporary_folder

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER / "planner.cc"
# Sums and products are rounded as Python rounds them: none is fused on any processor.
_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC")
_MOST_BYTES = 16 << 20


@functools.cache
def library() -> ctypes.CDLL | None:
    """The functions of `planner.cc`, or None where they cannot be had."""
    if not (compiler := cxx_command()):
        return None
    try:
        # Only what is in the cache has a hash: the library is loaded from a place of its own.
        with temporary_folder() as folder:
            path = folder / "planner.so"
            path.write_bytes(_built([*compiler, *_FLAGS, str(_SOURCE)], folder))
            return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        return None


def _built(command: list[str], folder: Path) -> bytes:
    """The library, which is compiled in a folder unless the cache has it."""
    store = ContentStore(cache_folder() / "planner", _MOST_BYTES, digits=1)
    parts = [path.read_bytes() for path in (_SOURCE, *sorted(_FOLDER.glob("*.h")))]
    key = hashlib.sha256(b"\0".join([*parts, " ".join(command).encode()])).hexdigest()
    kept = store.get(key)
    if kept is None:
        made = folder / "made.so"
        subprocess.run([*command, "-o", str(made)], check=True, capture_output=True)
        kept = made.read_bytes()
        store.put(key, kept)
    return kept
