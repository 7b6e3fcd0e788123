"""Caches for tests in which each step is compiled.

What was kept of a step shows nothing of a compiler that a test has changed.
"""

from pathlib import Path


def without_steps(folder: Path) -> str:
    """Makes an empty cache in which no steps are kept; its path."""
    place = folder / "odtc"
    place.mkdir(parents=True, exist_ok=True)
    # Where there is no folder, nothing is kept.
    (place / "steps").touch()
    return str(folder)
