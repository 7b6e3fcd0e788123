"""The command line: see the package."""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import benchmarks.recomputation as package
from benchmarks.budget.__main__ import shares
from benchmarks.options import add_sizes
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.recomputation.problems import LAYERED, problem_of
from benchmarks.recomputation.report import (
    OURS,
    Curve,
    PlannedStep,
    Share,
    draw,
    figures_of,
    table_of,
)
from benchmarks.step_time.cases import names
from odtc.passes.checkpoint.frontier import STRATEGIES, best_of, frontier
from odtc.passes.checkpoint.problem import Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.stage_program import StageProgram
from odtc.passes.checkpoint.validate import validate

# Those of the table of MOCCASIN (Bartan et al., ICML 2023), drawn graphs of its kind, and ours.
NETWORKS = (
    *("vgg19", "unet", "fcn8", "segnet", "mobilenet_v2", "resnet50"),
    *("densenet121", "bert_base", "layered-250", "layered-500", "layered-1000"),
)


def planned(name: str, problem: Recomputation, wanted: list[float]) -> PlannedStep:
    """Plans one step in all ways, and checks each plan."""
    whole = sum(problem.seconds)
    first = plan_of(problem, range(len(problem.seconds)))
    began = time.perf_counter()
    ours = frontier(problem)
    seconds = time.perf_counter() - began
    plans = {OURS: list(ours)}
    for strategy, sequences in STRATEGIES.items():
        plans[strategy] = list(best_of(plan_of(problem, each) for each in sequences(problem)))
    for each in (plan for way in plans.values() for plan in way):
        validate(problem, each)
    curves = [
        Curve(way, [(plan.peak, plan.seconds / whole) for plan in made])
        for way, made in plans.items()
    ]
    stage = StageProgram(problem, highest_of(problem, first))
    budgets = []
    for share in wanted:
        limit = int(share * first.peak)
        choice = stage.cheapest(limit)
        least = None if choice is None else 1 + choice.seconds / whole
        budgets.append(Share(share, least, {curve.name: curve.at(limit) for curve in curves}))
    return PlannedStep(name, len(problem.seconds), first.peak, seconds, budgets, curves)


def _names(text: str) -> list[str]:
    """Names of networks and of drawn graphs, joined by commas.

    Raises:
        ArgumentTypeError: there is no such network.
    """
    found, known = text.split(","), names()
    for name in found:
        number = name.removeprefix(LAYERED)
        if name not in known and not (name.startswith(LAYERED) and number.isdecimal()):
            raise argparse.ArgumentTypeError(f"there is no network {name!r}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recomputation",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Networks: {', '.join(names())}, and {LAYERED}NODES.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=_names, default=",".join(NETWORKS), help="by name")
    add("--shares", type=shares, default="0.9,0.8,0.7,0.6,0.5,0.4,0.3", help="budgets")
    add_sizes(parser, batch=16)
    add("--target", default="host-cpu{threads=1}", help="whose model tells times")
    add_files(parser, "recomputation", ["picture"])
    add_figures(parser, "budgets/recomputation")
    return parser


def main() -> int:
    """Makes the table; returns the exit status: 1 where a known way is better than odtc."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"batch": options.batch, "target": options.target}
    title = introduce(console, said, f"{options.target}, batch {options.batch}")
    found: list[PlannedStep] = []
    for name in options.networks:
        console.print(f"{name} ...")
        with tempfile.TemporaryDirectory() as folder:
            problem = problem_of(name, options.batch, options.target, Path(folder))
        found.append(planned(name, problem, options.shares))
        # A run takes long: what is there is written after each network.
        write_json(said, "networks", found, options.json)
    console.print(table_of(found), f"all numbers: {options.json}")
    write_figures(options.figures, said, figures_of(found))
    draw(found, title, options.picture)
    return 1 if any(_is_beaten(share) for item in found for share in item.shares) else 0


def _is_beaten(share: Share) -> bool:
    """Whether a known way is faster within a budget than odtc."""
    ours = share.times[OURS]
    return any(
        time is not None and (ours is None or time < ours - 1e-9) for time in share.times.values()
    )


if __name__ == "__main__":
    sys.exit(main())
