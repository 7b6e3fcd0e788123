"""The tables of an options file, each name checked against the commands there are.

[compile]                              of each `odtc compile`
[device.setup]                         of `odtc device setup`
[target.android-opencl.compile]        for this target
[model."nets/*.onnx".compile]          for models and artifacts of such a name
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from odtc.cli.config.file import WITHOUT, ConfigFile
from odtc.cli.config.lines import Keys, lines_of
from odtc.cli.config.values import UnfitError, value_of, what_stands
from odtc.cli.old_names import new_name, renamed_note
from odtc.cli.parser_tree import Path, actions_of, leaves_of, long_names
from odtc.cli.switches import Switch, name_for
from odtc.core.errors import UsageError
from odtc.core.options.option_text import did_you_mean, meant

# Tables with a table for each name, in which are those of commands; the later win.
TARGET, MODEL = "target", "model"
# Commands that say what the file is, or that run what they are given.
_WITHOUT_OPTIONS = {("config",), ("init",), ("completion",), ("device", "shell")}
# Options that name code to run, or belong to one command line.
_GIVEN_ONLY = {"help", "config", "no-config", "module", "source"}


@dataclass(frozen=True)
class Setting:
    """An option in the file.

    Attributes:
        action: the option.
        value: as argparse would have made it.
        words: that the command line would have for it, without its name.
        keys: where it is in the file.
    """

    action: argparse.Action
    value: Any
    words: Sequence[str]
    keys: Keys

    @property
    def is_off(self) -> bool:
        """Whether it says what holds anyway: it only takes back one of another table."""
        return self.value is what_stands(self.action)

    @property
    def name(self) -> str:
        """The option's name; of a switch the one that has its value."""
        return name_for(self.action, self.value)

    @property
    def shown(self) -> str:
        """The words, or whether the option that `name` names is on."""
        is_on = isinstance(self.action, Switch) or not self.is_off
        return shlex.join(self.words) or str(is_on).lower()


@dataclass(frozen=True)
class Section:
    """A table of options.

    Attributes:
        command: whose they are.
        settings: the options, in the order of the file.
        kind: `target` or `model` where it holds for some; else empty.
        pattern: of their names.
    """

    command: Path
    settings: Sequence[Setting]
    kind: str = ""
    pattern: str = ""


class Sections:
    """All tables of a file, read once for a parser.

    Args:
        file: of options.
        parser: of all commands.

    Raises:
        UsageError: a name is unknown, or a value is none of its option.
    """

    def __init__(self, file: ConfigFile, parser: argparse.ArgumentParser) -> None:
        self.file, self.notes = file, list[str]()
        self._leaves = configured(parser)
        self.all: Sequence[Section] = tuple(self._top())

    @cached_property
    def _lines(self) -> Mapping[Keys, int]:
        return lines_of(self.file.text)

    def where(self, keys: Keys) -> str:
        """File and line of a key."""
        line = self._lines.get((*self.file.root, *keys))
        return f"{self.file.name}, line {line}" if line else self.file.name

    def line(self, keys: Keys) -> int | None:
        """The line of a key, from 1; None where it is not known."""
        return self._lines.get((*self.file.root, *keys))

    def options(self, command: Path) -> dict[str, argparse.Action]:
        """What the file may give a command, by name."""
        return configurable(self._leaves[command])

    def _top(self) -> Iterator[Section]:
        table = self.file.table
        yield from self._commands({k: v for k, v in table.items() if k not in (TARGET, MODEL)})
        for kind in (TARGET, MODEL):
            for pattern, below in self._table(table.get(kind, {}), (kind,)).items():
                keys = (kind, pattern)
                if kind == TARGET:
                    self._check_target(pattern, keys)
                yield from self._commands(self._table(below, keys), keys, (kind, pattern))

    def _check_target(self, name: str, keys: Keys) -> None:
        # Imported here: most files name no target.
        from odtc.backends.targets import targets

        known = [target.name for target in targets()]
        if name not in known:
            hint = f"{did_you_mean(name, known)}known targets: {', '.join(known)}"
            raise self._error(f"unknown target {name!r}", keys, hint)

    def _commands(
        self, table: Mapping[str, Any], above: Keys = (), of: tuple[str, str] = ("", "")
    ) -> Iterator[Section]:
        """The tables of commands in a table."""
        known = {path[0] for path in self._leaves}
        for name, below in table.items():
            keys = (*above, name)
            if name not in known:
                raise self._unknown_table(name, keys)
            inside = self._table(below, keys)
            if (name,) in self._leaves:
                yield self._section((name,), inside, keys, of)
                continue
            actions = {path[1]: path for path in self._leaves if path[0] == name}
            for action, options in inside.items():
                if action not in actions:
                    hint = f"{did_you_mean(action, actions)}it has {', '.join(actions)}"
                    raise self._error(
                        f"odtc {name} has no command {action!r}", (*keys, action), hint
                    )
                deeper = (*keys, action)
                yield self._section(actions[action], self._table(options, deeper), deeper, of)

    def _section(
        self, command: Path, table: Mapping[str, Any], keys: Keys, of: tuple[str, str]
    ) -> Section:
        options = self.options(command)
        folder = self.file.path.parent
        settings = []
        for written, given in table.items():
            where = (*keys, written)
            name = new_name(written, self._leaves[command])
            if name != written:
                self.notes.append(f"{self.where(where)}: {renamed_note(written, name)}")
            if name not in options:
                raise self._unknown_option(name, command, where)
            if name == of[0] == TARGET:
                raise self._error("a table for a target chooses no target", where, "leave it out")
            try:
                read = value_of(self._leaves[command], options[name], name, given, folder)
            except UnfitError as error:
                raise self._error(
                    f"{name} = {_shown(given)}: {error}",
                    where,
                    f"`odtc {' '.join(command)} --help` says what it takes",
                ) from error
            settings.append(Setting(options[name], read.value, read.words, where))
        return Section(command, tuple(settings), *of)

    def _table(self, found: Any, keys: Keys) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self._error(
                f"{keys[-1]!r} is a table, not a value",
                keys,
                f"write [{'.'.join(keys)}] with options below",
            )
        return found

    def _unknown_table(self, name: str, keys: Keys) -> UsageError:
        known = sorted({path[0] for path in self._leaves} | ({TARGET, MODEL} - {*keys[:-1]}))
        owners = [path for path in self._leaves if name in self.options(path)]
        if owners:
            names = ", ".join(f"odtc {' '.join(path)}" for path in owners)
            hint = f"it is an option of {names}: write it below [{'.'.join(owners[0])}]"
        else:
            hint = f"{did_you_mean(name, known)}there are {', '.join(known)}"
        return self._error(f"there is no command {name!r}", keys, hint)

    def _unknown_option(self, name: str, command: Path, keys: Keys) -> UsageError:
        said = f"odtc {' '.join(command)}"
        if name in _GIVEN_ONLY:
            return self._error(f"{name!r} is given on the command line only", keys, WITHOUT)
        near = meant(name, self.options(command), command_line=True)
        return self._error(
            f"{said} has no option {name!r}", keys, f"{near}`{said} --help` shows what is available"
        )

    def _error(self, what: str, keys: Keys, hint: str) -> UsageError:
        return UsageError(what, where=self.where(keys), hint=hint)


def configured(parser: argparse.ArgumentParser) -> dict[Path, argparse.ArgumentParser]:
    """The commands that a file may have options for, each with its parser."""
    return {path: leaf for path, leaf in leaves_of(parser) if path not in _WITHOUT_OPTIONS}


def configurable(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """What a file may give a command, by name."""
    named = {name: action for action in actions_of(parser) for name in long_names(action)}
    return {name: action for name, action in named.items() if name not in _GIVEN_ONLY}


def _shown(given: Any) -> str:
    text = repr(given) if not isinstance(given, bool) else str(given).lower()
    return text if len(text) <= 60 else f"{text[:60]}..."
