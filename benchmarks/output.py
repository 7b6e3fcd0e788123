"""Where the results of a benchmark go: a terminal, a JSON file with raw samples, and pictures."""

import argparse
import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.pages.result import write_result
from odtc.comparison.measures.measure import (
    busy_share,
    commit,
    cpu_text,
    instructions,
    machine,
    versions,
)
from odtc.core.disk.files import atomic_write

RESULTS = Path("logs/bench")


def add_files(parser: argparse.ArgumentParser, stem: str, pictures: Sequence[str] = ()) -> None:
    """Adds the options that name files: `--json`, and one for each picture, all with defaults.

    Args:
        parser: of a benchmark.
        stem: of the JSON file, and of a picture that is called `picture`.
        pictures: names of options; all but `picture` are stems of files, too.
    """
    parser.add_argument(
        "--json", type=Path, default=RESULTS / f"{stem}.json", metavar="", help="for raw samples"
    )
    for name in pictures:
        file = RESULTS / f"{stem if name == 'picture' else name}.svg"
        parser.add_argument(f"--{name}", type=Path, default=file, metavar="", help="as SVG")


def terminal(width: int = 120) -> Console:
    """The terminal; a file gets lines of that many characters."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else width)


def add_figures(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the option for the figures of a page.

    Args:
        parser: of a benchmark.
        name: of a table in `benchmarks.pages.parts`, which reads what is written.
    """
    parser.add_argument(
        "--figures", type=Path, metavar="", help=f"for a page: docs/results/{name}.json"
    )


def write_figures(
    path: Path | None, said: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], **more: Any
) -> None:
    """Writes rows for a page, with what is said of a run; nothing where no file was asked for.

    How busy other programs keep the cores now, at the end of a run, is said, too.
    """
    if path is not None:
        run = {key: said[key] for key in _OF_A_RUN if key in said}
        write_result(path, {**run, "busy": round(busy_share(), 2)}, rows, **more)


# What the pages say of a run; all but the threads every benchmark knows.
_OF_A_RUN = ("machine", "versions", "commit", "date", "command", "threads")


def about() -> dict[str, Any]:
    """Returns the facts about a run that every report has."""
    return {
        "machine": {**machine(), "instructions": instructions()},
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command_of(sys.orig_argv),
    }


def command_of(words: Sequence[str]) -> str:
    """How this program was started, without the files that it writes."""
    shown, rest = ["python"], iter(words[1:])
    for word in rest:
        if word in ("--figures", "--json"):
            next(rest, None)
        elif not word.startswith(("--figures=", "--json=")):
            shown.append(word)
    return shlex.join(shown)


def introduce(console: Console, said: dict[str, Any], more: str) -> str:
    """Prints a report's facts about its run, and returns the title of its pictures."""
    title = f"{cpu_text(said['machine'])}, {more}"
    console.print(title, "; ".join(f"{k} {v}" for k, v in said["versions"].items()), sep="\n")
    return title


def numbers_table(*heads: str) -> Table:
    """A table whose columns but the first hold numbers."""
    table = Table(*heads, box=box.SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def write_json(said: dict[str, Any], name: str, rows: Sequence[Any], path: Path) -> None:
    """Writes the facts about a run, and under `name` all fields of the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = said | {name: [dataclasses.asdict(row) for row in rows]}
    path.write_text(json.dumps(report, indent=1))


def write_so_far(whole: Mapping[str, Any], path: Path) -> None:
    """Writes a report whose rows come one by one: a run that is ended early keeps those it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as made:
        made.write_text(json.dumps(whole, default=dataclasses.asdict), encoding="utf-8")


def panels(down: int, across: int, size: tuple[float, float], **more: Any) -> tuple[Any, list[Any]]:
    """A figure of that many inches, and its panels, row by row."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "odtc"
    from matplotlib import pyplot

    figure, made = pyplot.subplots(down, across, figsize=size, squeeze=False, **more)
    for panel in made.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(made.flat)


def save_figure(figure: Any, title: str, path: Path) -> None:
    """Writes a figure as SVG, the same bytes for the same numbers."""
    from matplotlib import pyplot

    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
