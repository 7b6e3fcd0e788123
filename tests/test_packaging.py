"""The packages list, the tree and the links agree, and a wheel holds what the tree holds.

A package that is missing from the list is left out of a wheel without a word.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "odtc"
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
MAPPED: dict[str, str] = SETUPTOOLS["package-dir"]


def source_files() -> list[Path]:
    """Python files of the package, relative to odtc/, links followed."""
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(PACKAGE, followlinks=True)
        for name in names
    ]
    return sorted(path.relative_to(PACKAGE) for path in found if path.suffix == ".py")


def dotted(folder: Path) -> str:
    """Name of the package in a folder relative to odtc/."""
    return ".".join(("odtc", *folder.parts))


def test_every_folder_with_modules_is_a_package():
    folders = {file.parent for file in source_files()}
    assert folders == {file.parent for file in source_files() if file.name == "__init__.py"}


def test_packages_are_listed():
    assert SETUPTOOLS["packages"] == sorted({dotted(file.parent) for file in source_files()})


def test_links_lead_to_the_mapped_folders():
    links = {dotted(Path(p.name)): os.readlink(p) for p in PACKAGE.iterdir() if p.is_symlink()}
    assert links == {name: f"../{folder}" for name, folder in MAPPED.items()}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in MAPPED.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy, so that nothing is written beside the sources."""
    copy, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for folder in ("odtc", *MAPPED.values()):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", str(copy), *options, "--wheel-dir", str(dist)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = dist.glob("*.whl")
    return built


def test_wheel_holds_the_modules_of_the_tree(wheel):
    members = zipfile.ZipFile(wheel).namelist()
    assert sorted(m for m in members if m.endswith(".py")) == sorted(
        f"odtc/{file.as_posix()}" for file in source_files()
    )
    assert "odtc/py.typed" in members
    compiled = {*ROOT.glob("*/native/*.cc"), *ROOT.glob("*/native/*.h")}
    native = (ROOT / "runtime_rpc" / "native").rglob("*")
    runtime = {file for file in native if file.suffix in {".c", ".h", ".hpp", ".java"}}
    assert len({file.suffix for file in runtime}) == 4
    assert {f"odtc/{file.relative_to(ROOT).as_posix()}" for file in compiled | runtime} <= {
        *members
    }
    assert {"passes", "backends"} == {file.parent.parent.name for file in compiled}
    assert any(m.endswith("licenses/LICENSE") for m in members)


def test_wheel_imports_on_its_own(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import importlib, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]:\n"
        "    module = importlib.import_module(name)\n"
        "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    )
    names = [*SETUPTOOLS["packages"], "odtc.driver.compilation", "odtc.runtime_rpc.trainer"]
    subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path), *names],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
