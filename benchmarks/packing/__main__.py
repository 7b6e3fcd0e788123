"""The command line: see the package."""

import argparse
import sys
import time
from functools import partial

import benchmarks.packing as package
from benchmarks.options import listed, positive
from benchmarks.output import about, add_files, introduce, terminal, write_json
from benchmarks.packing.inputs import CAPACITY, CHALLENGING, INPUTS
from benchmarks.packing.report import Packed, draw, table_of
from odtc.passes.memory.packing.budget import STEPS_PER_SECOND, Limit
from odtc.passes.memory.packing.problem import PackingProblem
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.validate import validate


def packed(name: str, limit: Limit) -> Packed:
    """Solves one input, and checks its plan."""
    buffers = INPUTS[name]()
    problem = PackingProblem(buffers)
    began = time.perf_counter()
    solution = solve(problem, limit)
    seconds = time.perf_counter() - began
    validate(problem, solution)
    return Packed(
        name,
        len(buffers),
        solution.lower_bound,
        solution.height,
        solution.proven_optimal,
        seconds,
    )


def _names(text: str) -> list[str]:
    return listed(text, list(INPUTS), "input")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.packing",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Inputs: {', '.join(INPUTS)}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--inputs", type=_names, default=",".join(INPUTS), help="by name, joined by commas")
    add("--steps", type=positive, default=10 * STEPS_PER_SECOND, help="of search for each input")
    add_files(parser, "packing", ["picture"])
    return parser


def main() -> int:
    """Packs all inputs; returns the exit status: 1 where a plan is above its capacity."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"steps": options.steps}
    title = introduce(console, said, "one core")
    results = []
    for name in options.inputs:
        results.append(packed(name, Limit(options.steps)))
        # A run takes long: what is there is written after each input.
        write_json(said, "inputs", results, options.json)
    console.print(table_of(results))
    challenging = [item for item in results if item.name in CHALLENGING]
    above = [item.name for item in challenging if item.height > CAPACITY]
    console.print(
        f"{len(challenging) - len(above)} of {len(challenging)} challenging inputs within "
        f"{CAPACITY:,} bytes, in {sum(item.seconds for item in challenging):.1f} s; "
        f"all numbers: {options.json}"
    )
    draw(results, title, options.picture)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
