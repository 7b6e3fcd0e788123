"""The user's C++ compiler, where there is one."""

import os
import shlex
import shutil


def cxx_command() -> list[str]:
    """The command that `$CXX` names, or of the first compiler there is; empty where none is."""
    for candidate in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return words
    return []
