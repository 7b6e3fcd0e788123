"""A wheel of the sources, and an environment that has it and what it requires, and nothing else."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
MAPPED: dict[str, str] = SETUPTOOLS["package-dir"]


def copied(copy: Path) -> None:
    """Copies what a wheel is built from: the build leaves files beside it."""
    for folder in ("odtc", *MAPPED.values()):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)


def build_wheel(source: Path, dist: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "wheel", str(source), *options, "-w", str(dist)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=300
    )


def required(of: Distribution, seen: set[str]) -> Iterator[Distribution]:
    """What a distribution requires without extras, and what that does."""
    for each in map(Requirement, of.requires or ()):
        wanted = each.marker is None or each.marker.evaluate({"extra": ""})
        if wanted and each.name not in seen:
            seen.add(each.name)
            found = distribution(each.name)
            yield found
            yield from required(found, seen)


def environment_of(wheel: Path, folder: Path) -> Path:
    """The Python of an environment with a wheel and the packages that it requires, by links."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (about,) = packages.glob("odtc-*.dist-info")
    names = set[str]()
    for each in required(PathDistribution(about), names):
        for top in {file.parts[0] for file in each.files or () if file.parts[0] != ".."}:
            source = Path(str(each.locate_file(top)))
            if source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    assert names >= {"numpy", "onnx"}
    assert not names & {"apache-tvm", "apache-tvm-ffi", "torch"}
    return folder / "bin" / "python"


def run_in(base: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs its Python, without programs, in a folder where nothing of odtc is."""
    folder = base.parents[1]
    return subprocess.run(
        [str(base), *words],
        cwd=folder,
        env={"HOME": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
