"""A process that is forked for each program of a test: TVM, kernels and the library are there.

    test ─ a line: the program, its environment, files → template ─ fork → program, to its end
         ← a line: how that ended ───────────────────────────┘

To import TVM and to compile the library takes longer than what most of the programs do. Nothing
here opens Vulkan, and there is one thread, so that a fork is as a process of its own. But what the
dynamic loader reads from the environment it has read: a library that stands for another is loaded
by name (`FIRST`), and found by that.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.native.vulkan import device, kernels

# In the environment: the path of a library that is loaded before anything else.
FIRST = "FIRST_LIBRARY"
# A program that takes longer hangs.
_SECONDS = 300


def main() -> None:
    """Answers each line of standard input, to its end; in a fork, to the end of a program."""
    device.library()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run(json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(job: dict[str, Any]) -> None:
    """Becomes the program.

    Args:
        job: `files` for standard output and errors, `environment`, and either the source `code`,
            which has the names of `device.py` and `kernels.py`, with `words`, or `words` of pytest.
    """
    signal.alarm(_SECONDS)
    _into(0, os.devnull, os.O_RDONLY)
    for number, path in enumerate(job["files"], 1):
        _into(number, path, os.O_WRONLY | os.O_APPEND)
    os.environ.clear()
    os.environ.update(job["environment"])
    if FIRST in os.environ:
        ctypes.CDLL(os.environ[FIRST], ctypes.RTLD_GLOBAL)
    if "code" not in job:
        sys.exit(pytest.main(job["words"]))
    sys.argv = ["-c", *job["words"]]
    exec(compile(job["code"], "<program>", "exec"), {**vars(device), **vars(kernels), "sys": sys})


def _into(number: int, path: str, flags: int) -> None:
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)


if __name__ == "__main__":
    main()
