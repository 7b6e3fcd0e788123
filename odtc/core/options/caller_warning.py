"""Warnings that point at the line of the user's code that called odtc."""

import sys
import warnings


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the nearest caller outside of odtc, whatever lies between."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "odtc":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def warn_renamed(old: str, new: str) -> None:
    """Says of an old name, which goes on working, what it is called now.

    By Python's own rule such a warning is shown once for each line that causes it, where that is in
    a script, a notebook or a test.

    Args:
        old: as the caller wrote it.
        new: what to write in its place.
    """
    warn_caller(f"{old} is an old name: write {new}", DeprecationWarning)
