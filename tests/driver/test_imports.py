"""The driver reads as a line of stages: no file needs many others, and none needs itself."""

import ast
from collections.abc import Iterator, Mapping

from tests.test_layers import imported_modules, is_module, modules

# Folders in which no module leads back to itself, by whatever import: for types, or late ones too.
WITHOUT_CIRCLES = ("odtc.driver", "odtc.step_cache", "odtc.cli", "odtc.tuner")
# Of modules of odtc and others.
MOST = 25


def needed(source: str) -> set[str]:
    """Modules that a file imports, at its top or later."""
    return set(_needed(source))


def _needed(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in imported_modules(node):
                is_name = isinstance(node, ast.ImportFrom) and not is_module(name)
                yield name.rpartition(".")[0] if is_name else name


def way_back(of: Mapping[str, set[str]], start: str) -> list[str]:
    """A shortest way from a module to itself; empty where there is none."""
    ways, behind = {start: [start]}, [start]
    for module in behind:
        for each in sorted(of[module] & of.keys()):
            if each == start:
                return [*ways[module], start]
            if each not in ways:
                ways[each] = [*ways[module], each]
                behind.append(each)
    return []


def test_no_module_leads_back_to_itself() -> None:
    files = {name.removesuffix(".__init__"): file for name, file in modules()}
    of = {name: needed(file.read_text("utf-8")) for name, file in files.items()}
    ways = [way_back(of, name) for name in of if name.startswith(WITHOUT_CIRCLES)]
    assert not any(ways), "\n".join(" -> ".join(way) for way in ways if way)


def test_a_circle_is_found() -> None:
    of = {"a": {"b"}, "b": {"c"}, "c": {"a", "numpy"}, "d": {"a"}}
    assert way_back(of, "b") == ["b", "c", "a", "b"]
    assert not way_back(of, "d")
    late = "def f():\n    from odtc.core.specs import Role\n    import odtc.artifact"
    assert needed(late) == {"odtc.core.specs", "odtc.artifact"}


def test_no_file_of_the_driver_needs_many_others() -> None:
    files = {name: file for name, file in modules() if name.startswith("odtc.driver.")}
    counts = {name: len(needed(file.read_text("utf-8"))) for name, file in files.items()}
    assert {name: count for name, count in counts.items() if count > MOST} == {}
