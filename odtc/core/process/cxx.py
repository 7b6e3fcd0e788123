"""The user's compilers of C++ and of C, where there are any."""

import os
import shlex
import shutil
from collections.abc import Sequence


def cxx_command() -> list[str]:
    """The command that `$CXX` names, or of the first compiler there is; empty where none is."""
    return _first((os.environ.get("CXX", ""), "c++", "g++", "clang++"))


def cc_command() -> list[str]:
    """The same of C, by `$CC`."""
    return _first((os.environ.get("CC", ""), "cc", "gcc", "clang"))


def _first(candidates: Sequence[str]) -> list[str]:
    for candidate in candidates:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return words
    return []
