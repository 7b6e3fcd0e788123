"""The inner loops of memory plans in C++, built with the user's compiler where there is one.

Plans are looked for in Python, whose inner loops run once for each task of each attempt: of a
network that is most of the time. What is here is the same, and finds the same plans; where there is
no compiler, Python does it.
"""

import ctypes
import functools
import subprocess
from pathlib import Path

from odtc.core.process.cxx import cxx_command
from odtc.core.process.native_library import kept_library, load_library

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER / "planner.cc"
# Sums and products are rounded as Python rounds them: none is fused on any processor.
_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The functions of `planner.cc`, or None where they cannot be had."""
    if not (compiler := cxx_command()):
        return None
    command = [*compiler, *_FLAGS, str(_SOURCE)]

    def build(path: Path) -> None:
        subprocess.run([*command, "-o", str(path)], check=True, capture_output=True)

    sources = [path.read_bytes() for path in (_SOURCE, *sorted(_FOLDER.glob("*.h")))]
    try:
        return load_library(kept_library([*sources, " ".join(command).encode()], build))
    except (OSError, subprocess.SubprocessError):
        return None
