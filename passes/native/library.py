"""The inner loops of memory plans in C++, built with the user's compiler where there is one.

Plans are looked for in Python, whose inner loops run once for each task of each attempt: of a
network that is most of the time. What is here is the same, and finds the same plans; where there is
no compiler, or the cache cannot be written, Python does it.
"""

import ctypes
import functools
import hashlib
import subprocess
from pathlib import Path

from odtc.core.cxx import cxx_command
from odtc.core.files import cache_folder
from odtc.core.left_behind import temporary_folder

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER / "planner.cc"
# Sums and products are rounded as Python rounds them: none is fused on any processor.
_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The functions of `planner.cc`, or None where they cannot be had."""
    if not (compiler := cxx_command()):
        return None
    try:
        return ctypes.CDLL(str(_built(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None


def _built(compiler: list[str]) -> Path:
    """The library, which is compiled unless the cache has it."""
    command = [*compiler, *_FLAGS, str(_SOURCE)]
    parts = [path.read_bytes() for path in (_SOURCE, *sorted(_FOLDER.glob("*.h")))]
    named = hashlib.sha256(b"\0".join([*parts, " ".join(command).encode()])).hexdigest()[:16]
    path = cache_folder() / "native" / f"planner-{named}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path.parent) as folder:
            made = folder / path.name
            subprocess.run([*command, "-o", str(made)], check=True, capture_output=True)
            # Another process may have been faster; both libraries are the same.
            made.replace(path)
    return path
