"""Where results lie, and how old one is: of which commit, from which machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.pages.kernels import OF_GPUS, ROOT, changed_since, changes, runs_of
from benchmarks.pages.suite_rows import SUITES
from benchmarks.results.table import Kind, Row
from odtc.comparison.measures.measure import SOURCES, commit, machine
from odtc.comparison.results import BUSY

# The parts of a machine that say whether it is the same.
SAME = ("cpu", "core", "cores")
# Sources that decide nothing of what is measured here: of GPUs, and of apps.
_OTHERS = (*OF_GPUS, ":(exclude)runtime_rpc/native/gpu", ":(exclude)examples")
_TESTS = "tests"


@dataclass(frozen=True)
class Age:
    """How old a file is.

    Attributes:
        date: of its oldest run; empty where there is no file.
        commits: of its runs.
        is_current: whether all runs are of this machine, and of the sources that decide them.
        kernels_changed: whether those of kernels have changed since; None where git does not know.
        minutes: that its commands took, where a run says so.
        busy: the largest share of the cores that other programs kept busy in a run.
    """

    date: str = ""
    commits: Sequence[str] = ()
    is_current: bool = False
    kernels_changed: bool | None = None
    minutes: float | None = None
    busy: float = 0

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs had more of the cores than times allow."""
        return self.busy > BUSY


@dataclass(frozen=True)
class Place:
    """A clone of odtc.

    Attributes:
        root: of it.
    """

    root: Path = ROOT

    @property
    def results(self) -> Path:
        """The folder of all results."""
        return self.root / "docs" / "results"

    @property
    def logs(self) -> Path:
        """The folder of what commands say."""
        return self.root / "logs" / "results"

    @property
    def index(self) -> Path:
        """The file that tells the runs of suites."""
        return self.results / f"{SUITES}.json"

    @cached_property
    def commit(self) -> str:
        """What is measured; it ends in `-dirty` where sources differ from it."""
        return commit(self.root)

    @property
    def unfinished(self) -> Path:
        """The folder of what is not whole yet, of this commit."""
        return self.root / "build" / "results" / self.commit

    def age(self, row: Row) -> Age:
        """How old a row's file is."""
        said = {"runs": self.runs(row), "rows": _all_in(self.results / row.file, "rows")}
        runs = [run for _, run in runs_of(said)]
        if not runs:
            return Age()
        since = changes(said, Path(row.file), self.root)
        sources = _deciding(row)
        return Age(
            min(run["date"] for run in runs),
            [*dict.fromkeys(run["commit"] for run in runs)],
            all(self._is_current(run, sources) for run in runs),
            None if None in since else any(since),
            runs[0].get("minutes"),
            max(run.get("busy", 0) for run in runs),
        )

    def runs(self, row: Row) -> Sequence[Mapping[str, Any]]:
        """What is said of the runs of a row's file; empty where nothing is."""
        path = self.results / row.file
        if not path.is_file():
            return ()
        listed = [run for run in _all_in(self.index, "runs") if run.get("file") == row.file]
        if row.kind is Kind.SUITE:
            here = {"machine": head_of(path).get("machine", {})}
            return [
                {**run, **here, "apart": [{**each, **here} for each in run.get("apart", ())]}
                for run in listed
            ]
        return _all_in(path, "runs") or listed

    def _is_current(self, run: Mapping[str, Any], sources: Sequence[str]) -> bool:
        here, there = machine(), run.get("machine", {})
        is_here = all(there.get(key) == here.get(key) for key in SAME)
        hashed = run["commit"]
        is_clean = bool(hashed) and not hashed.endswith("-dirty") and not run.get("typed")
        return is_here and is_clean and changed_since(hashed, self.root, sources) is False


def _deciding(row: Row) -> Sequence[str]:
    """What decides the figures of a row that commands write here, as git takes it."""
    in_tests = any(f"-m {_TESTS}." in command for command in row.commands)
    return (*SOURCES, *_OTHERS, *([] if in_tests else [f":(exclude){_TESTS}"]))


def _all_in(path: Path, key: str) -> Sequence[Mapping[str, Any]]:
    """The runs or rows of a file of figures; none in one of a suite's rows."""
    if path.suffix != ".json" or not path.is_file():
        return ()
    said = json.loads(path.read_text(encoding="utf-8"))
    return said.get(key, ()) if isinstance(said, dict) else ()


def head_of(path: Path) -> Mapping[str, Any]:
    """What a file of rows says of all of them."""
    with path.open(encoding="utf-8") as lines:
        (head,) = json.loads(next(lines)).values()
    return head
