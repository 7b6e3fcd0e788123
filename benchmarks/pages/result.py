"""A file of figures: the rows of a table, and the runs that measured them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Figures of one table.

    Attributes:
        runs: of each: `machine` (`cpu`, `cores`, `instructions`), `versions`, `commit`, `date`,
            `command`; perhaps `threads`, `conditions`, `busy` (the share of the cores that other
            programs had at the end), `typed` (no sample of the figures was kept; date and commit
            are those that brought them to the page), `kernels_changed` since the commit, `apart`
            (a suite's rows that have an age of their own, because they were measured again or
            their kernels alone have changed: `rows`, `date`, `commit`, `why`).
        rows: the figures; a row that is not of the first run has its number as `run`.
        more: all other figures by name.
    """

    runs: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]
    more: Mapping[str, Any]

    def rows_of(self, run: int) -> list[Row]:
        """Those that a run measured."""
        return [row for row in self.rows if row.get("run", 0) == run]


def path_of(name: str) -> Path:
    """The file of a table, such as `performance/compile_time`."""
    return RESULTS / f"{name}.json"


def read_result(name: str) -> Result:
    """The figures of a table; see `read_file`."""
    return read_file(path_of(name))


def read_file(path: Path) -> Result:
    """Reads a file; of pages that other commands write it has runs, and no rows.

    Raises:
        OSError: there is none.
        KeyError: it lacks runs.
    """
    said = json.loads(path.read_text(encoding="utf-8"))
    return Result(said.pop("runs"), said.pop("rows", []), said)


def write_result(path: Path, run: Mapping[str, Any], rows: Sequence[Row], **more: Any) -> None:
    """Writes the figures of one run, in place of those that are there."""
    write_results(path, [run], rows, **more)


def write_results(
    path: Path, runs: Sequence[Mapping[str, Any]], rows: Sequence[Row], **more: Any
) -> None:
    """The same of several runs; a row that is not of the first has its number as `run`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"runs": runs, "rows": rows, **more}
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
