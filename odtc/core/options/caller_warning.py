"""Warnings that point at the line of the user's code that called odtc."""

import sys
import warnings


def warn_caller(text: str) -> None:
    """Warns at the nearest caller outside of odtc, whatever lies between."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "odtc":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
