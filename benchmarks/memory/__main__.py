"""The command line: see the package."""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

import benchmarks.memory as package
from benchmarks.memory.cases import NETWORKS
from benchmarks.memory.report import (
    bounds_of,
    draw,
    failures,
    figures_of,
    loss_table,
    peer_table,
    plan_table,
    summary,
)
from benchmarks.memory.rows import ENGINES, OURS, MemoryRow, MemoryTerms, measured_row
from benchmarks.options import add_sizes, listed, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import names


def chosen_networks(text: str) -> list[str]:
    """Those of a list joined by commas."""
    return listed(text, names(), "network")


def _engines(text: str) -> list[str]:
    """Of these names, odtc first: it is what the others are compared with."""
    return list(dict.fromkeys([OURS, *listed(text, ENGINES, "engine")]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Networks: {', '.join(names())}. Engines: {', '.join(ENGINES)}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add("--engines", type=_engines, default="all", help="peers by name, joined by commas")
    add_sizes(parser, batch=4, threads=1)
    add("--runs", type=positive, default=3, help="processes that an engine is measured in")
    add_files(parser, "memory", ["picture"])
    add_figures(parser, "memory/networks")
    return parser


def _row(name: str, options: argparse.Namespace, console: Console) -> MemoryRow:
    with tempfile.TemporaryDirectory() as folder:
        return measured_row(
            name,
            options.engines,
            MemoryTerms(options.batch, options.threads, options.runs),
            Path(folder),
            lambda task: console.print(f"{name}: {task} ..."),
        )


def main() -> int:
    """Makes the table; returns the exit status: 1 where odtc itself failed."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"threads": options.threads}
    title = introduce(console, said, f"batch {options.batch}, threads {options.threads}")
    rows = []
    for name in options.networks:
        rows.append(_row(name, options, console))
        # A run takes long: what is there is written after each network.
        write_json(said, "networks", rows, options.json)
    console.print(plan_table(rows), peer_table(rows), loss_table(rows))
    console.print(*failures(rows), *summary(rows), f"all numbers: {options.json}", sep="\n")
    write_figures(options.figures, said, figures_of(rows), **bounds_of(rows))
    draw(rows, title, options.picture)
    return 1 if any(OURS in row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
