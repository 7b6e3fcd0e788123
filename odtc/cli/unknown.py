"""Errors for options that a command does not have."""

import argparse
from collections.abc import Iterator, Sequence

from odtc.cli.parser_tree import actions_of, commands_of
from odtc.core.errors import UsageError
from odtc.core.options.option_text import meant


def unknown_options(
    parser: argparse.ArgumentParser, command: str, unknown: Sequence[str]
) -> UsageError:
    """The error of what is left over of a command line.

    Args:
        parser: of all commands.
        command: that was given.
        unknown: what it does not take.
    """
    options = {name: set(_options(each)) for name, each in commands_of(parser).items()}
    first = unknown[0].partition("=")[0]
    others = [name for name, known in options.items() if first in known]
    near = (
        meant(first, sorted(options[command]), command_line=True) if first.startswith("-") else ""
    )
    if first in options[command]:
        near = f"{first} comes after odtc {command}; "
    if not near and others:
        near = f"{first} is an option of {', '.join(f'odtc {name}' for name in others)}; "
    return UsageError(
        f"unrecognized arguments: {' '.join(unknown)}",
        hint=f"{near}`odtc {command} --help` shows what is available",
    )


def unknown_beside(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """The beginning of a hint where a required option is missing: one may stand there misnamed."""
    known = [name for action in actions_of(parser) for name in action.option_strings]
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    said = ((name, meant(name, known, command_line=True)) for name in names if name not in known)
    return "".join(f"there is no {name}: {near}" for name, near in said if near)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """All options of a command, those of its own commands too."""
    for action in actions_of(parser):
        yield from action.option_strings
    for each in commands_of(parser).values():
        yield from _options(each)
