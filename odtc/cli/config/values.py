"""What a value of TOML is for an option: the same as its words on the command line."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odtc.cli.switches import Switch, is_negative
from odtc.core.errors import UsageError

# Options whose words are the name of a file or folder, by what `--help` calls it.
_FILES = {"ART", "ART|MODEL.onnx", "DATA", "DIR", "FILE", "FOLDER", "JSON", "JSONL", "MODEL"}
_FILES |= {"NPZ", "ONNX", "OUT", "PATH", "RESULTS", "WEIGHTS"}
# Options that may be the name of a file.
_PERHAPS_FILES = {"layout", "loss", "suite"}
# Of a device, whose folders are not this machine's.
_NO_FILES = {"storage"}


class UnfitError(ValueError):
    """A value that the option cannot have; the text says why."""


@dataclass(frozen=True)
class Value:
    """A value of an option.

    Attributes:
        value: as argparse makes it of words.
        words: that the command line would have; none for a switch.
    """

    value: Any
    words: Sequence[str] = ()


def is_switch(action: argparse.Action) -> bool:
    """Whether an option has no words after it."""
    return action.nargs == 0


def what_stands(action: argparse.Action) -> Any:
    """The value of an option where it is not given."""
    return action.stands if isinstance(action, Switch) else action.default


def value_of(
    parser: argparse.ArgumentParser, action: argparse.Action, name: str, given: Any, folder: Path
) -> Value:
    """The value that the option would have by its words.

    Args:
        parser: of the command.
        action: its option.
        name: that the file has for it; of a switch also `no-x`.
        given: what the file has.
        folder: of the file, that names of files are relative to.

    Raises:
        UnfitError: the option cannot have it.
    """
    if is_switch(action):
        if not isinstance(given, bool):
            raise UnfitError("it is on or off: give true or false")
        if isinstance(action, Switch):
            return Value(action.on if given != is_negative(name, action) else action.off)
        return Value(action.const if given else action.default)
    if action.nargs == argparse.OPTIONAL and isinstance(given, bool):
        return Value(action.const if given else action.default)
    words = [_placed(action, word, folder) for word in _words(action, given)]
    return Value(_read(parser, action, words), words)


def _words(action: argparse.Action, given: Any) -> list[str]:
    """The words of a value.

    Raises:
        UnfitError: it has another form than the option's.
    """
    form = str(action.metavar)
    if isinstance(given, Mapping) and "=" in form:
        return [f"{name}={_in_table(each)}" for name, each in given.items()]
    if not isinstance(given, list):
        return [_word(given)]
    if not given:
        raise UnfitError("the list is empty: leave the option out")
    if "," in form:
        return [",".join(map(_word, given))]
    if not takes_many(action):
        raise UnfitError("it takes one value, not a list")
    return [_word(each) for each in given]


def takes_many(action: argparse.Action) -> bool:
    """Whether an option has several words, or may be given several times."""
    return action.nargs in (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE) or isinstance(
        action, argparse._AppendAction
    )


def _word(given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise UnfitError(f"it takes a string or a number, not {_called(given)}")
    text = str(given)
    if not text or "\0" in text:
        raise UnfitError("it takes a string that is not empty")
    return text


def _in_table(given: Any) -> str:
    """The right side of a word such as `NAME=VALUE`."""
    if isinstance(given, list):
        return ",".join(map(_in_table, given))
    return str(given).lower() if isinstance(given, bool) else _word(given)


def _called(given: Any) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    return {dict: "a table", list: "a list"}.get(type(given), "a date")


def is_of_files(action: argparse.Action) -> bool:
    """Whether the words of an option are names of files or folders."""
    return str(action.metavar) in _FILES or action.dest == "output"


def _placed(action: argparse.Action, word: str, folder: Path) -> str:
    """A word; the name of a file as it is from the working folder."""
    if action.dest in _NO_FILES or os.path.isabs(word):
        return word
    is_file = action.dest in _PERHAPS_FILES and (folder / word).is_file()
    if not is_file and not is_of_files(action):
        return word
    near = os.path.relpath(folder) if Path.cwd().is_relative_to(folder.absolute()) else folder
    # Not of pathlib, which drops a last separator: it makes the name that of a folder.
    return word if near == "." else os.path.join(near, word)


def _read(parser: argparse.ArgumentParser, action: argparse.Action, words: list[str]) -> Any:
    """The value of some words.

    Raises:
        UnfitError: they are none.
    """
    try:
        if isinstance(action, argparse._AppendAction) and action.nargs is None:
            return [parser._get_values(action, [word]) for word in words]
        return parser._get_values(action, words)
    except argparse.ArgumentError as error:
        raise UnfitError(error.message) from error
    except UsageError as error:
        raise UnfitError(f"{error.what}: {error.hint}" if error.hint else error.what) from error
