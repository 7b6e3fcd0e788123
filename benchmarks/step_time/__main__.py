"""The command line: see the package."""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

import benchmarks.step_time as package
from benchmarks.ceilings import measure_ceilings
from benchmarks.options import listed, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import NETWORKS, case_of, names
from benchmarks.step_time.compare import StepComparison, compare
from benchmarks.step_time.engines import ENGINES, OURS, USUAL, Make
from benchmarks.step_time.report import (
    draw,
    draw_rooflines,
    figures_of,
    reasons,
    summary,
    table_of,
)
from odtc.comparison.measures.measure import core_count

# Above this share of busy cores, other programs disturb the times too much.
MAX_BUSY = 0.1


def _models(text: str) -> list[str]:
    return listed(text, names(), "model")


def _engines(text: str) -> dict[str, Make]:
    """Of these names, odtc first: it is what the others are compared with."""
    chosen = listed(text, list(ENGINES), "engine")
    return {name: ENGINES[name] for name in dict.fromkeys([OURS, *chosen])}


def _counts(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.step_time",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}. Engines: {', '.join(ENGINES)}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", type=_models, default=",".join(NETWORKS), help="by name, joined by commas")
    add("--engines", type=_engines, default=",".join(USUAL), help="peers by name, or all")
    add("--threads", type=_counts, default=sorted({1, core_count()}), help="such as 1,2")
    add("--batch", type=positive, help="samples in a step; each model has a usual number")
    add("--steps", type=positive, default=30, help="timed steps of each engine")
    add_files(parser, "step_time", ["picture", "rooflines"])
    add_figures(parser, "performance/step_time")
    return parser


def comparisons_of(options: argparse.Namespace, console: Console) -> Iterator[StepComparison]:
    """Each model with each number of threads."""
    for name in options.models:
        case = case_of(name, options.batch)
        # Engines of a model keep large files there.
        with tempfile.TemporaryDirectory() as folder:
            for threads in options.threads:
                console.print(f"{name}, threads {threads} ...")
                threaded = dataclasses.replace(case, threads=threads)
                yield compare(threaded, options.engines, options.steps, Path(folder))


def main() -> int:
    """Runs the comparison; returns the exit status."""
    options = _parser().parse_args()
    console = terminal()
    said = about()
    title = introduce(console, said, f"{said['machine']['cores']} cores")
    ceilings = [measure_ceilings(threads) for threads in options.threads]
    said["ceilings"] = [dataclasses.asdict(each) for each in ceilings]
    comparisons = []
    for item in comparisons_of(options, console):
        comparisons.append(item)
        # A run takes long: what is there is written after each model.
        write_json(said, "comparisons", comparisons, options.json)
    console.print(table_of(comparisons))
    limits = [each.text() for each in ceilings]
    console.print(*reasons(comparisons), *limits, *summary(comparisons), sep="\n")
    reached = {
        str(each.threads): {"registers": [each.fma / 1e9], "product": [each.gemm / 1e9]}
        for each in ceilings
    }
    write_figures(options.figures, said, figures_of(comparisons), gflops=reached)
    draw(comparisons, title, options.picture)
    draw_rooflines(comparisons, ceilings, title, options.rooflines)
    console.print(f"median (quartiles) of {options.steps} steps; raw samples: {options.json}")
    worst = max(share for item in comparisons for share in item.busy)
    if worst > MAX_BUSY:
        console.print(
            f"other programs kept {worst:.0%} of the cores busy: do not trust these times"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
