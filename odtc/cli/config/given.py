"""What the words of a command line give, without what a file does."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from odtc.cli.parser_tree import actions_of

_HELP = {"-h", "--help"}
# How many words a positional argument takes where a file may have it: those it takes, or none.
_OR_NONE = {None: argparse.OPTIONAL, argparse.ONE_OR_MORE: argparse.ZERO_OR_MORE}


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether a command line wants the help of a command."""
    end = words.index("--") if "--" in words else len(words)
    return not _HELP.isdisjoint(words[:end])


def given_by(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The options and arguments that the words after a command give, by where they are kept.

    Returns:
        These, and the words that the command does not take.

    Raises:
        UsageError: a word is none of the command's.
    """
    with _nothing_required(parser):
        found, unknown = parser.parse_known_args(words, argparse.Namespace())
    own = {action.dest: action for action in actions_of(parser)}
    given = {
        name: value
        for name, value in vars(found).items()
        if name in own and (own[name].option_strings or value not in (None, []))
    }
    return given, unknown


@contextmanager
def _nothing_required(parser: argparse.ArgumentParser) -> Iterator[None]:
    """A block in which the parser leaves out what is not given."""
    actions = actions_of(parser)
    groups = parser._mutually_exclusive_groups
    before = [(each, each.default, each.required, each.nargs) for each in actions]
    required = [group.required for group in groups]
    for action in actions:
        # That of a positional argument is read by its type, if it is a text.
        action.default = argparse.SUPPRESS if action.option_strings else None
        make_optional(action)
    for group in groups:
        group.required = False
    try:
        yield
    finally:
        for action, default, needed, nargs in before:
            action.default, action.required, action.nargs = default, needed, nargs
        for group, needed in zip(groups, required, strict=True):
            group.required = needed


def make_optional(action: argparse.Action) -> None:
    """Lets a command do without an option or argument, as far as the parser asks."""
    action.required = False
    if not action.option_strings:
        action.nargs = _OR_NONE.get(action.nargs, action.nargs)
