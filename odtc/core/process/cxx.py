"""The user's compilers of C++ and of C, where there are any."""

import os
import shlex
import shutil
from collections.abc import Sequence

from odtc.core.errors import UsageError


def cxx_command() -> list[str]:
    """The command that `$CXX` names, or of the first compiler there is; empty where none is.

    Raises:
        UsageError: `$CXX` is no command.
    """
    return _first("CXX", ("c++", "g++", "clang++"))


def cc_command() -> list[str]:
    """The same of C, by `$CC`."""
    return _first("CC", ("cc", "gcc", "clang"))


def _first(variable: str, usual: Sequence[str]) -> list[str]:
    for words in (_words(variable), *([name] for name in usual)):
        if words and shutil.which(words[0]):
            return words
    return []


def _words(variable: str) -> list[str]:
    given = os.environ.get(variable, "")
    try:
        return shlex.split(given)
    except ValueError as error:
        raise UsageError(
            f"the environment variable {variable} is {given!r}, which is not a command: {error}",
            where=variable,
            hint="name a compiler in it, with its options, or unset it",
        ) from error
