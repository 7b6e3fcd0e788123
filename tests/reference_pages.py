"""`python -m tests.reference_pages` writes what repeats the code: docs/cli.md and docs/api.md, and
odtc/driver/entry_points.py, whose functions have an argument for each option of a step.
"""

import argparse
import inspect
import os
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import odtc
from odtc.cli.main import build_parser
from tests.entry_points import entry_points

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_WIDTH = "100"
_CLI = """# The command line

All commands and options, as `odtc COMMAND --help` prints them. Results go to stdout; progress,
notes and errors go to stderr. `--json` prints one JSON object instead of text. This page is
generated from the parser by `python -m tests.reference_pages`.
"""
_API = """# The Python package

All public names of `odtc`. Anything that is not listed here may change without notice. This page is
generated from the docstrings by `python -m tests.reference_pages`.
"""

# Of the other classes odtc itself asks for more than how they are made.
_WITH_MEMBERS = ("Artifact", "Trainer", "schedules")


def cli_page() -> str:
    """The help of every command."""
    # Help is broken into lines for a terminal of this width.
    with mock.patch.dict(os.environ, {"COLUMNS": _WIDTH}):
        return "\n".join([_CLI, *_commands(build_parser())])


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _commands(each)


def api_page() -> str:
    """Signature and docstring of every public name."""
    return "\n".join([_API, *(part for name in odtc.__all__ for part in _named(name))])


def _named(name: str) -> Iterator[str]:
    found = getattr(odtc, name)
    yield _section("##", f"odtc.{name}", found)
    if name in _WITH_MEMBERS:
        for key, value in _members(found):
            yield _section("###", f"odtc.{name}.{key}", value)


def _members(of: type | ModuleType) -> Iterator[tuple[str, Any]]:
    """Public functions and properties, in the order in which they are written."""
    # Of a class, those of the classes that it extends, too.
    owners = [of] if isinstance(of, ModuleType) else [b for b in of.__mro__ if b is not object]
    for owner, (key, raw) in ((each, item) for each in owners for item in vars(each).items()):
        module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
        value = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        is_own = getattr(value, "__module__", module) == module
        if not key.startswith("_") and is_own and isinstance(value, property | Callable):
            yield key, value


def _section(mark: str, name: str, found: Any) -> str:
    said = inspect.cleandoc(found.__doc__ or "")
    return f"{mark} {name}\n\n```text\n{name}{_signature(found)}\n\n{said.rstrip()}\n```\n"


def _signature(found: Any) -> str:
    """The parameters, one a line where there are many, without the first of a method."""
    if not callable(found) or (isinstance(found, type) and issubclass(found, Enum | Exception)):
        return ""
    signature = inspect.signature(found)
    parameters = [
        each.replace(default=_Named(each.default)) if inspect.isfunction(each.default) else each
        for name, each in signature.parameters.items()
        if name != "self"
    ]
    short = str(signature.replace(parameters=parameters))
    if len(short) < int(_WIDTH) - 20:
        return short
    result = "" if signature.return_annotation is signature.empty else f" -> {_result(signature)}"
    lines = "".join(f"    {each},\n" for each in _with_star(parameters))
    return f"(\n{lines}){result}"


class _Named:
    """A function as a default, shown by its name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = function.__name__

    def __repr__(self) -> str:
        return self._name


def _result(signature: inspect.Signature) -> str:
    return inspect.formatannotation(signature.return_annotation)


def _with_star(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """The parameters, and the star before those that have to be named."""
    kinds = [each.kind for each in parameters]
    for at, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and each.KEYWORD_ONLY not in kinds[:at]:
            yield "*"
        yield str(each)


# The page of the package is of the signatures that are written before it.
PAGES = {
    "odtc/driver/entry_points.py": entry_points,
    "docs/cli.md": cli_page,
    "docs/api.md": api_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
