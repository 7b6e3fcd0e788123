"""Cost as a number that is the same on any machine: counts of Python's calls."""

import cProfile
import pstats
from collections.abc import Callable


def calls_of(run: Callable[[], object]) -> int:
    """How many functions are called in it, those that are not written in Python too."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
