"""Options of a file become what a command does without words of its own: its parser's defaults."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odtc.cli.config.file import ConfigFile, find_here, read
from odtc.cli.config.given import asks_for_help, given_by, make_optional
from odtc.cli.config.in_force import InForce, in_force
from odtc.cli.config.sections import Sections, Setting, configured
from odtc.cli.parser_tree import Path as Command
from odtc.cli.parser_tree import command_in, exclusive_groups
from odtc.core.errors import UsageError


@dataclass(frozen=True)
class Taken:
    """What a command line takes from a file.

    Attributes:
        command: that is run; empty where none is.
        sections: of the file; None where there is none.
        found: what holds.
        notes: of files that were passed over.
        unknown: words that the command does not take.
    """

    command: Command = ()
    sections: Sections | None = None
    found: InForce = field(default_factory=lambda: InForce({}, {}))
    notes: tuple[str, ...] = ()
    unknown: Sequence[str] = ()

    def said(self) -> list[str]:
        """What is to be said of it, a line each."""
        lines = [f"note: {note}" for note in self.notes]
        if self.sections and self.found.settings:
            words = " ".join(map(spelled, self.found.settings.values()))
            lines.append(f"options of {self.sections.file.name}: {words}")
        return lines


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--config` and `--no-config` to every command that a file has options for."""
    for leaf in configured(parser).values():
        group = leaf.add_argument_group("options file").add_mutually_exclusive_group()
        group.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="read options from FILE, not from odtc.toml or pyproject.toml in this folder or "
            "one above",
        )
        group.add_argument("--no-config", action="store_true", help="read no options file")


def take_options(
    parser: argparse.ArgumentParser, words: Sequence[str], file: ConfigFile | None = None
) -> Taken:
    """Gives the command of a command line the options of the file that holds for it.

    Args:
        parser: of all commands.
        words: the command line.
        file: in place of the one that would be found.

    Raises:
        UsageError: the file has a fault, or a word of the command line is wrong.
    """
    taken = options_for(parser, words, file)
    if not taken.sections:
        return taken
    _, leaf = command_in(parser, words)
    settings = taken.found.settings
    leaf.set_defaults(**{name: each.value for name, each in settings.items()})
    for each in settings.values():
        make_optional(each.action)
    for group in leaf._mutually_exclusive_groups:
        group.required &= not {each.dest for each in group._group_actions} & settings.keys()
    return taken


def options_for(
    parser: argparse.ArgumentParser, words: Sequence[str], file: ConfigFile | None = None
) -> Taken:
    """What a command line takes from a file; see `take_options`.

    Raises:
        UsageError: the file has a fault, or a word of the command line is wrong.
    """
    command, leaf = command_in(parser, words)
    if command not in configured(parser) or asks_for_help(words):
        return Taken(command)
    given, unknown = given_by(leaf, words[len(command) :])
    if given.pop("no_config", False):
        return Taken(command, None, InForce(given, {}), (), unknown)
    other, notes = given.pop("config", None), ()
    if file is None:
        file, notes = file_of(other)
    if not file:
        return Taken(command, None, InForce(given, {}), notes, unknown)
    sections = Sections(file, parser)
    found = in_force(sections, command, given, exclusive_groups(leaf))
    return Taken(command, sections, found, (*notes, *sections.notes), unknown)


def file_of(given: Path | None) -> tuple[ConfigFile | None, tuple[str, ...]]:
    """The file that is given, or that of the working folder, and notes of others.

    Raises:
        UsageError: it has a fault.
    """
    if given is None:
        found = find_here()
        return found.file, found.notes
    file = read(given)
    if file is None:
        raise UsageError(
            "it has no table [tool.odtc]",
            where=str(given),
            hint="give --config a file with such a table, or one like odtc.toml",
        )
    return file, ()


def spelled(setting: Setting) -> str:
    """An option as words of a command line."""
    name = [f"--{setting.name}"] if setting.action.option_strings else []
    return shlex.join([*name, *setting.words])
