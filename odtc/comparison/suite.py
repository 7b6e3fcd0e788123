"""Suites of models: a table of TOML, and a command that makes them."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odtc.comparison.case import Case
from odtc.core.errors import BuildError, UsageError
from odtc.core.options.option_text import did_you_mean

# Suites in odtc's repository; a wheel has none, since their models need PyTorch.
_FOLDER = Path("benchmarks", "suites")
_SUFFIX = ".toml"
_MODEL, _DATA = "model.onnx", "data.npz"


@dataclass(frozen=True)
class Suite:
    """A suite.

    Attributes:
        path: of its table.
        title: for people.
        make: arguments of Python that make a model.
        root: folder that it runs in, and from which PyTorch's modules are imported.
        batches: of the published study.
        models: their names.
        memory_limit: as text, of each process; '' for none.
        published: tables of figures, each with `title`, `source`, `heads` and `rows`.
    """

    path: Path
    title: str
    make: Sequence[str]
    root: Path
    batches: Sequence[int]
    models: Sequence[str]
    memory_limit: str
    published: Sequence[Mapping[str, Any]]


def find_suite(name: str) -> Suite:
    """A suite of odtc's repository by its name, or any by the path of its table.

    Raises:
        UsageError: there is none, or the table lacks something.
    """
    path = _path_of(name)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Suite(
            path,
            data["title"],
            data["make"],
            (path.parent / data["root"]).resolve(),
            data["batches"],
            data["models"],
            data.get("memory_limit", ""),
            data.get("published", []),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"the suite cannot be read: {what}",
            where=str(path),
            hint="docs/comparison.md says what a suite is",
        ) from error


def _path_of(name: str) -> Path:
    if name.endswith(_SUFFIX):
        return Path(name)
    folders = [Path(__file__).parents[2] / _FOLDER, _FOLDER]
    for folder in folders:
        path = folder / f"{name}{_SUFFIX}"
        if path.is_file():
            return path
    known = sorted(path.stem for folder in folders for path in folder.glob(f"*{_SUFFIX}"))
    has = (
        f"odtc has {', '.join(dict.fromkeys(known))}" if known else "its models need a clone of it"
    )
    raise UsageError(
        f"no suite {name!r}",
        where=str(_FOLDER),
        hint=f"{did_you_mean(name, known)}{has}; or name a .toml file",
    )


def made(suite: Suite, model: str, batch: int, folder: Path) -> Case:
    """Makes a model of a suite; batch and threads of the case are still to be chosen.

    Raises:
        BuildError: it cannot be made, with the last line of what was said.
    """
    command = [sys.executable, *suite.make, model, str(batch), str(folder.absolute())]
    done = subprocess.run(command, cwd=suite.root, capture_output=True, text=True, check=False)
    try:
        about = json.loads(done.stdout.splitlines()[-1])
        loss, lr, module = tuple(about["loss"]), float(about["lr"]), about["module"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BuildError(
            f"{model} cannot be made: {last}",
            where=str(suite.path),
            hint="`make setup` in a clone of odtc installs what models need",
        ) from error
    return Case(
        str(folder / _MODEL),
        batch=batch,
        threads=1,
        loss=loss,
        module=module,
        data=str(folder / _DATA),
        lr=lr,
        root=str(suite.root),
    )
