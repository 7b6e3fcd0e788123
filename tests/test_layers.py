"""The layers: who may import whom, absolute imports only, and no TVM before it is needed."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "odtc"

# What each layer may import beside itself. The rest of odtc/ is the face, and may import all.
MAY_IMPORT = {
    "core": set(),
    "dialect": {"core"},
    "frontend": {"core", "dialect"},
    "passes": {"core", "dialect"},
    "backends": {"core", "dialect", "passes"},
    "autoschedule": {"core", "dialect", "passes", "backends"},
    "runtime_rpc": {"core", "backends"},
}
# All others lie at the top of the repository.
FOLDERS = MAY_IMPORT.keys() - {"core", "dialect"}
# No part of the package may need these.
OUTSIDE = {"benchmarks", "tests"}


def layer_of(module: str) -> str:
    """The layer of a module such as `odtc.frontend.graph`; '' is the face."""
    part = [*module.split("."), ""][1]
    return part if part in MAY_IMPORT else ""


def imported_modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Full names of what a statement imports; `from a import b` may mean the module `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def violations(module: str, source: str) -> Iterator[str]:
    """Imports of a module that its layer does not allow, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        where = f"{module}, line {node.lineno}: "
        if isinstance(node, ast.ImportFrom) and node.level:
            yield where + "relative import"
            continue
        for name in imported_modules(node):
            problem = forbidden(layer_of(module), name)
            if problem:
                yield where + problem


def forbidden(layer: str, name: str) -> str:
    """Why a module of the layer may not import `name`; '' where it may."""
    top = name.split(".", maxsplit=1)[0]
    if top in FOLDERS:
        return f"{name} is odtc.{name}"
    if top in OUTSIDE:
        return f"the package may not need {top}"
    if top != "odtc" or not layer or layer_of(name) in {layer} | MAY_IMPORT[layer]:
        return ""
    return f"{layer} may not import {name}"


@functools.cache
def modules() -> list[tuple[str, Path]]:
    """Name and file of every module; glob does not follow links, so each folder is walked."""
    roots = [PACKAGE, *(PACKAGE / folder for folder in sorted(FOLDERS))]
    files = {file for root in roots for file in root.rglob("*.py")}
    return sorted(
        (".".join(("odtc", *file.relative_to(PACKAGE).with_suffix("").parts)), file)
        for file in files
    )


def imports_face(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a statement imports a name of `odtc` itself, and no module of it.

    What is inside knows the modules in which such names are at home: the face imports all of them.
    """
    return any(
        name == "odtc" or (name.rpartition(".")[0] == "odtc" and not is_module(name))
        for name in imported_modules(node)
    )


def is_module(name: str) -> bool:
    """Whether the package has such a module, or such a folder of them."""
    return not {name, f"{name}.__init__"}.isdisjoint(dict(modules()))


def test_every_layer_is_seen():
    assert {layer_of(name) for name, _ in modules()} == {*MAY_IMPORT, ""}


def test_layers_hold():
    found = [line for name, file in modules() for line in violations(name, file.read_text())]
    assert not found, "\n".join(found)


def test_nothing_inside_imports_the_face():
    found = [
        f"{name}, line {node.lineno}"
        for name, file in modules()
        if name != "odtc.__init__"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and imports_face(node)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "is_face"),
    [
        ("import odtc", True),
        ("from odtc import __version__", True),
        ("from odtc import Trainer as T", True),
        ("from odtc import artifact", False),
        ("import odtc.runtime_rpc.sessions.local", False),
    ],
)
def test_an_import_of_the_face_is_caught(source, is_face):
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.Import | ast.ImportFrom)
    assert imports_face(node) is is_face


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        (
            "odtc.core.specs",
            "import odtc.frontend.graph",
            "core may not import odtc.frontend.graph",
        ),
        ("odtc.core.specs", "import odtc", "core may not import odtc"),
        (
            "odtc.dialect.table",
            "import odtc.passes.contract",
            "dialect may not import odtc.passes.contract",
        ),
        ("odtc.passes.x", "from odtc import backends", "passes may not import odtc.backends"),
        ("odtc.frontend.x", "from odtc.artifact import load", "may not import odtc.artifact.load"),
        (
            "odtc.runtime_rpc.x",
            "if True:\n    def f():\n        from odtc.autoschedule.cpu import g",
            "line 3: runtime_rpc may not import odtc.autoschedule.cpu.g",
        ),
        ("odtc.driver.compilation", "from . import artifact", "relative import"),
        (
            "odtc.driver.compilation",
            "import frontend.graph",
            "frontend.graph is odtc.frontend.graph",
        ),
        (
            "odtc.driver.compilation",
            "from passes import contract",
            "passes.contract is odtc.passes",
        ),
        ("odtc.cli.main", "import tests.numeric", "the package may not need tests"),
    ],
)
def test_a_forbidden_import_is_caught(module, source, problem):
    (found,) = violations(module, source)
    assert problem in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "odtc.driver.compilation",
            "from odtc.frontend import graph\nimport odtc.runtime_rpc.sessions.local",
        ),
        ("odtc.autoschedule.cpu", "from odtc.backends.targets import Target\nimport tvm"),
        ("odtc.passes.x", "from odtc.passes.contract import Pass\nfrom odtc.core import specs"),
    ],
)
def test_an_allowed_import_passes(module, source):
    assert not list(violations(module, source))


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh Python holds after `code`."""
    report = "\nimport sys; print('\\n'.join(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", code + report], stdout=subprocess.PIPE, text=True, check=True
    )
    return set(done.stdout.splitlines())


@pytest.mark.parametrize(
    "code",
    [
        "import odtc",
        "import odtc.cli.main",
        "import sys\n"
        "from odtc.cli.main import main\n"
        "sys.argv = ['odtc', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code",
    ],
    ids=["package", "cli", "help"],
)
def test_tvm_is_not_imported(code):
    loaded = loaded_after(code)
    assert "odtc" in loaded
    assert not loaded & {"tvm", "tvm_ffi", "torch", "onnxruntime"}
