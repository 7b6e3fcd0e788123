"""Imports between modules: no circles, few modules that many need, and folders that one can read.

Every import counts: those that only a type checker sees, and those within functions, too.
"""

import ast
from collections import Counter
from functools import cache

import pytest

from tests.test_layers import PACKAGE, imported_modules, modules

MOST_IMPORTERS = 40
MOST_FILES = 15
# Modules that more may import: types and functions that a layer is written in.
VOCABULARY = {
    "odtc.cli.console",
    "odtc.core.artifact.manifest",
    "odtc.core.errors",
    "odtc.core.specs",
    "odtc.core.disk.files",
    "odtc.core.ir.place",
    "odtc.core.ir.relax_calls",
    "odtc.core.options.kinds",
    "odtc.frontend.graph",
    "odtc.frontend.operators.operator",
    "odtc.passes.contract",
    "odtc.backends.targets",
    "odtc.backends.kernels.common.places",
    "odtc.backends.kernels.common.vectors",
    "odtc.backends.kernels.product.tile",
}
# Circles that are still there, by the modules that are in them.
KNOWN_CIRCLES: list[set[str]] = []


@cache
def imports() -> dict[str, set[str]]:
    """For each module of the package those that it imports, under their own names."""
    files = {name.removesuffix(".__init__"): path for name, path in modules()}
    found = {}
    for name, path in files.items():
        found[name] = set[str]()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for each in imported_modules(node):
                    module = each if each in files else each.rpartition(".")[0]
                    found[name] |= {module} & files.keys() - {name}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each leads to each of the others."""
    reached = {start: _reached(graph, start) for start in graph}
    alike = {frozenset({a, *(b for b in reached[a] if a in reached[b])}) for a in graph}
    return [set(each) for each in alike if len(each) > 1]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_there_are_no_circles():
    assert [each for each in circles(imports()) if each not in KNOWN_CIRCLES] == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a", "c"}, "c": set()}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [{"a", "b", "c"}]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], found: list[set[str]]):
    assert circles(graph) == found


def test_few_modules_are_imported_by_many():
    importers = Counter(each for others in imports().values() for each in others)
    many = {name for name, count in importers.items() if count > MOST_IMPORTERS}
    assert many <= VOCABULARY, {name: importers[name] for name in many - VOCABULARY}


def test_folders_can_be_read():
    folders = Counter(path.parent for _, path in modules() if path.stem != "__init__")
    full = {str(path.relative_to(PACKAGE)): n for path, n in folders.items() if n > MOST_FILES}
    assert full == {}
