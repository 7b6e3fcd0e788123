"""TVMScript without a look at the sources of all that is being called when it is read."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from types import FrameType, SimpleNamespace
from typing import Any

# Where TVM has its decorators.
ENTRIES = (
    "tvm.tirx.script.parser.entry",
    "tvm.script.parser.ir.entry",
    "tvm.relax.script.parser.entry",
)
# Of what calls a decorator, TVM reads the line of this one alone: it may be a class.
_READ = 2


def callers_are_not_read() -> None:
    """From now on TVM's decorators know frames of who calls them, and one's line of source.

    They ask for the lines of all, and Python looks for each through all modules that there are:
    with those of all tests four fifths of the time of reading a small module.
    """
    without: Mapping[str, Any] = {**vars(inspect), "stack": stack}
    for name in ENTRIES:
        importlib.import_module(name).__dict__["inspect"] = SimpleNamespace(**without)


def stack() -> list[inspect.FrameInfo]:
    """As `inspect.stack()`, whose lines of source are those of one frame."""
    found: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        lines, index = None, None
        if len(found) == _READ:
            read = inspect.getframeinfo(frame)
            lines, index = read.code_context, read.index
        found.append(
            inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, lines, index)
        )
        frame = frame.f_back
    return found
