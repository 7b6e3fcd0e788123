"""Caches for tests in which each step is compiled.

What was kept of a step, or of a kernel before it is lowered, shows nothing of a compiler that a
test has changed.
"""

from pathlib import Path

# What tests keep for themselves lies beside odtc's cache in a folder of this name.
KEPT = "odtc-tests"


def without_steps(folder: Path) -> str:
    """Makes an empty cache in which neither steps nor outlines are kept; its path."""
    return _without(folder, "steps", "outlines")


def with_outlines(folder: Path) -> str:
    """Makes an empty cache in which no steps are kept; its path."""
    return _without(folder, "steps")


def _without(folder: Path, *names: str) -> str:
    place = folder / "odtc"
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        # Where there is no folder, nothing is kept.
        (place / name).touch()
    return str(folder)
