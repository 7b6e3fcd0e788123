"""The commands of a parser, and the options of each, as they were added.

argparse shows neither by public names, so its own attributes are read here, and nowhere else.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence

Path = tuple[str, ...]


def commands_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The commands right below a parser, by name; none where it is that of a command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def leaves_of(
    parser: argparse.ArgumentParser, path: Path = ()
) -> Iterator[tuple[Path, argparse.ArgumentParser]]:
    """All commands that take options, such as `("device", "setup")`, each with its parser."""
    below = commands_of(parser)
    if path and not below:
        yield path, parser
    for name, each in below.items():
        yield from leaves_of(each, (*path, name))


def command_in(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[Path, argparse.ArgumentParser]:
    """The command that a command line begins with, and its parser; both of all where there is none.

    No command has an option before the words that name it.
    """
    path: Path = ()
    for word in words:
        below = commands_of(parser)
        if word not in below:
            break
        path, parser = (*path, word), below[word]
    return path, parser


def actions_of(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """The options and positional arguments of a command, in their order."""
    return parser._actions


def exclusive_groups(parser: argparse.ArgumentParser) -> list[set[str]]:
    """Sets of options of which a command takes one, by where their values are kept."""
    return [
        {action.dest for action in group._group_actions}
        for group in parser._mutually_exclusive_groups
    ]


def long_names(action: argparse.Action) -> list[str]:
    """The names of an option without their dashes; that of a positional argument as it is."""
    names = [each for each in action.option_strings if each.startswith("--")]
    return [each.removeprefix("--") for each in names] or [action.dest]


def long_name(action: argparse.Action) -> str:
    """The first of them."""
    return long_names(action)[0]


def help_of(parser: argparse.ArgumentParser, name: str) -> str:
    """The line that the help of a parser has for one of its commands."""
    for action in actions_of(parser):
        if isinstance(action, argparse._SubParsersAction):
            for each in action._choices_actions:
                if each.dest == name:
                    return each.help or ""
    return ""
