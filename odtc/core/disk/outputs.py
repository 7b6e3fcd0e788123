"""Files that are to be written are told from those that are read, before any work is done."""

import os
from collections.abc import Iterable, Mapping

from odtc.core.errors import UsageError

_Path = str | os.PathLike[str]
_OWN_NAME = "give it a name of its own"


def check_outputs(
    outputs: Iterable[_Path | None],
    inputs: Mapping[str, Iterable[_Path | None]],
    hint: str = _OWN_NAME,
) -> None:
    """Checks that no file that is to be written is one that is read, or another one to be written.

    Files are told apart by what a path leads to: relative ones, and links of both kinds.

    Args:
        outputs: paths that are to be written; None for what is not asked for.
        inputs: paths that are read, by what the message calls them, such as `the model`.
        hint: of the error for an input.

    Raises:
        UsageError: two paths lead to one file.
    """
    read = [(what, path) for what, paths in inputs.items() for path in paths if path]
    written: list[_Path] = []
    for output in outputs:
        if not output:
            continue
        for what, path in read:
            if is_same_file(output, path):
                raise _would_replace(output, what, hint)
        if any(is_same_file(output, other) for other in written):
            raise _would_replace(output, "another of the results", _OWN_NAME)
        written.append(output)


def is_same_file(one: _Path, other: _Path) -> bool:
    """Whether two paths lead to one file; those that are not there yet may."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return False


def _would_replace(output: _Path, what: str, hint: str) -> UsageError:
    return UsageError(f"the output would replace {what}", where=os.fspath(output), hint=hint)
