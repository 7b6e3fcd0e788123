"""Which options of a file hold for a command line.

The command line wins over a table for the model, that over one for the target, and that over the
command's own. Commands that make a step of a model, without compiling it, share what
`[compile]` says of it.
"""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from odtc.cli.config.sections import MODEL, TARGET, Section, Sections, Setting
from odtc.cli.parser_tree import Path as Command
from odtc.core.disk.file_limits import MOST_MANIFEST_BYTES, MOST_MEMBERS_BYTES
from odtc.core.errors import UsageError

# Whose options a command has, too, where both take them.
_SHARES: Mapping[Command, Command] = {
    (name,): ("compile",) for name in ("check", "plan", "tune", "opt")
}
# What each has for itself.
_OWN = {"output", "json", "device"}
# Where the model that a command is about is kept.
_MODELS = ("model", "artifact", "inputs")


@dataclass(frozen=True)
class InForce:
    """What holds for a command line.

    Attributes:
        given: on the command line, by where it is kept.
        settings: of the file, by the same.
    """

    given: Mapping[str, Any]
    settings: Mapping[str, Setting]


def in_force(
    sections: Sections, command: Command, given: Mapping[str, Any], groups: Sequence[set[str]]
) -> InForce:
    """Chooses what holds.

    Args:
        sections: of the file.
        command: that is run.
        given: on the command line, by where it is kept.
        groups: of options of which the command takes one.

    Raises:
        UsageError: a table gives two options of which the command takes one.
    """
    own = [each for each in _of(sections, command) if not each.kind]
    chosen = _joined(own, groups, sections)
    model = _first({**_values(chosen), **given})
    by_model = [each for each in _of(sections, command) if _is_for_model(each, model, sections)]
    over = _joined(by_model, groups, sections)
    target = _target({**_values(chosen), **_values(over), **given}, model)
    by_target = [
        each for each in _of(sections, command) if (each.kind, each.pattern) == (TARGET, target)
    ]
    chosen = _joined([*own, *by_target, *by_model], groups, sections)
    # What is turned off takes no other's place.
    on = {name for name, value in given.items() if value is not False and value is not None}
    taken = {*given, *(name for group in groups if group & on for name in group)}
    return InForce(given, {k: v for k, v in chosen.items() if k not in taken and not v.is_off})


def _values(settings: Mapping[str, Setting]) -> dict[str, Any]:
    return {name: each.value for name, each in settings.items()}


def _of(sections: Sections, command: Command) -> Iterator[Section]:
    """The tables of a command: first what it shares with another, then its own."""
    other = _SHARES.get(command)
    if other:
        options = sections.options(command)
        mine = {action.dest: action for action in options.values() if action.dest not in _OWN}
        for each in sections.all:
            if each.command == other:
                settings = [
                    replace(found, action=mine[found.action.dest])
                    for found in each.settings
                    if found.action.dest in mine
                ]
                yield Section(command, settings, each.kind, each.pattern)
    yield from (each for each in sections.all if each.command == command)


def _joined(
    tables: Sequence[Section], groups: Sequence[set[str]], sections: Sections
) -> dict[str, Setting]:
    """The settings of tables, of which the later ones win."""
    found: dict[str, Setting] = {}
    for table in tables:
        here: dict[str, Setting] = {}
        for setting in table.settings:
            name = setting.action.dest
            rivals = {name, *(each for group in groups if name in group for each in group)}
            both = [each for each in here if each in rivals and not here[each].is_off]
            if both and not setting.is_off:
                first, second = (each.keys[-1] for each in (here[both[0]], setting))
                raise UsageError(
                    f"{first} and {second} are not allowed together",
                    where=sections.where(setting.keys),
                    hint="leave one of them out",
                )
            here[name] = setting
            for each in rivals - {name} if not setting.is_off else ():
                found.pop(each, None)
        found |= here
    return found


def _first(values: Mapping[str, Any]) -> str:
    """The model or artifact that a command is about; empty where there is none."""
    for name in _MODELS:
        if found := values.get(name):
            return str(found[0] if isinstance(found, list) else found)
    return ""


def _is_for_model(table: Section, model: str, sections: Sections) -> bool:
    """Whether a table is for a model, by its name, with or without ending, or its path."""
    if table.kind != MODEL or not model:
        return False
    path, folder = Path(model).absolute(), sections.file.path.parent.absolute()
    names = [path.name, path.stem]
    if path.is_relative_to(folder):
        names.append(path.relative_to(folder).as_posix())
    return any(fnmatch.fnmatchcase(name, table.pattern) for name in names)


def _target(values: Mapping[str, Any], model: str) -> str:
    """The name of the target that a command is for: its own, or that of its artifact."""
    text = str(values.get("target") or "") or _target_of(Path(model))
    return (text or "host-cpu").partition("{")[0]


def _target_of(artifact: Path) -> str:
    """The target of an artifact; empty where the file is none, which the command will say."""
    # Imported here: the parser's start waits for none of it.
    import json
    import zipfile

    from odtc.core.artifact.archive import small_directory

    try:
        with (
            small_directory(artifact, MOST_MEMBERS_BYTES) as file,
            zipfile.ZipFile(file) as archive,
        ):
            item = archive.getinfo("manifest.json")
            if item.file_size > MOST_MANIFEST_BYTES:
                return ""
            found = json.loads(archive.read(item)).get("target", "")
    except (OSError, ValueError, KeyError, AttributeError, zipfile.BadZipFile, NotImplementedError):
        return ""
    return found if isinstance(found, str) else ""
