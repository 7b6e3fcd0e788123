"""`odtc config`: the options file, and what of it holds for a command line."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odtc.cli.config.apply import Taken, file_of, options_for
from odtc.cli.config.file import NAME, PROJECT, ConfigFile
from odtc.cli.config.sections import Sections, configured
from odtc.cli.console import aligned, emit, emit_json, say
from odtc.cli.old_names import by_new_names
from odtc.cli.options import add_json_option
from odtc.cli.parser_tree import actions_of, command_in, commands_of
from odtc.cli.switches import Switch, name_for
from odtc.cli.unknown import unknown_options
from odtc.core.errors import ExitCode, UsageError
from odtc.core.options.option_text import did_you_mean

Row = tuple[str, str, str]


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "config",
        help="show the options in an options file",
        description="Read odtc.toml, or [tool.odtc] of pyproject.toml, and show the options in "
        "it; with a command line, show those that apply to it and where each comes from.",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options from FILE, not from the file that commands read here; a command line "
        "has its own --config",
    )
    add_json_option(parser)
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND ...",
        help="a command line, such as: compile digits.onnx --batch 8",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a table."""
    if args.words:
        command, leaf = command_in(args.parser, args.words)
        if command not in configured(args.parser):
            said = " ".join(args.words)
            raise UsageError(
                f"no command that takes options from a file begins {said!r}",
                hint=f"{did_you_mean(args.words[0], commands_of(args.parser))}write what comes "
                "after odtc, such as: odtc config compile MODEL.onnx",
            )
        words, renamed = by_new_names(args.parser, args.words)
        taken = options_for(args.parser, words)
        if taken.unknown:
            raise unknown_options(args.parser, command[0], taken.unknown)
        file = taken.sections.file if taken.sections else None
        rows, notes = list(_in_force(taken, leaf)), (*renamed, *taken.notes)
    else:
        file, notes = file_of(args.config)
        if file:
            sections = Sections(file, args.parser)
            rows, notes = list(_all(sections)), (*notes, *sections.notes)
        else:
            rows = []
    for note in notes:
        say(f"note: {note}")
    if args.json:
        data = [dict(zip(("option", "value", "from"), row, strict=True)) for row in rows]
        emit_json({"file": str(file.path) if file else None, "options": data})
    elif rows:
        emit(*aligned(rows))
    _say_file(file, bool(args.words))
    return ExitCode.OK


def _all(sections: Sections) -> Iterator[Row]:
    """Every option of the file: its tables and name, its value, its line."""
    for section in sections.all:
        for setting in section.settings:
            keys = (*setting.keys[:-1], setting.name)
            yield ".".join(map(_key, keys)), setting.shown, sections.where(setting.keys)


def _key(name: str) -> str:
    """A key as TOML has it."""
    is_bare = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if is_bare else f'"{name}"'


def _in_force(taken: Taken, leaf: argparse.ArgumentParser) -> Iterator[Row]:
    """What holds for a command line, that of the line itself first."""
    actions = {action.dest: action for action in reversed(actions_of(leaf))}
    for name, value in taken.found.given.items():
        action = actions[name]
        shown = "true" if isinstance(action, Switch) else _shown(value)
        yield name_for(action, value), shown, "command line"
    for setting in taken.found.settings.values():
        where = taken.sections.where(setting.keys) if taken.sections else ""
        yield setting.name, setting.shown, where


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _say_file(file: ConfigFile | None, has_words: bool) -> None:
    if not file:
        say(f"there is neither {NAME} nor [tool.odtc] in {PROJECT}, here or in a folder above")
    elif has_words:
        say("everything else has the default that `--help` shows")
    else:
        say(f"{file.path}; `odtc config COMMAND ...` shows what applies to a command line")
