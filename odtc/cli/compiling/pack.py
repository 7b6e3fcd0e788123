"""`odtc pack`: gives buffers of known lifespans their places in one arena. Needs no TVM."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import aligned, emit, emit_json, stages
from odtc.cli.options import add_json_option, at_least, output_file
from odtc.core.disk.files import check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import BudgetError, ExitCode

if TYPE_CHECKING:
    from odtc.passes.memory.packing.problem import PackingSolution


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "pack",
        help="assign buffers to offsets in an arena",
        description="Assign buffers of known lifespans to offsets in one arena that is as small "
        "as possible.",
        epilog="FILE has a header with id,lower,upper,size and optionally alignment: a buffer "
        "is\n"
        "live from lower until just before upper. The plan adds a column, offset.",
    )
    parser.add_argument("table", type=Path, metavar="FILE", help="buffers, as CSV")
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        required=True,
        metavar="OUT",
        help="file to write the plan to",
    )
    parser.add_argument(
        "--capacity",
        type=at_least(1),
        metavar="BYTES",
        help="arena size that is small enough (default: as small as possible)",
    )
    parser.add_argument(
        "--time-limit",
        type=at_least(1),
        default=60,
        metavar="SECONDS",
        help="time limit of the search (default: 60)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the plan, and says how good it is.

    Raises:
        OdtcError: the table is wrong, no plan fits, or the plan cannot be written.
    """
    from odtc.passes.memory.packing.budget import Limit
    from odtc.passes.memory.packing.csv_file import read_buffers, write_plan
    from odtc.passes.memory.packing.problem import PackingProblem
    from odtc.passes.memory.packing.search import steps_per_second
    from odtc.passes.memory.packing.solve import solve
    from odtc.passes.memory.packing.validate import validate

    check_outputs([args.output], {"the table of buffers": [args.table]})
    check_writable(args.output)
    buffers = read_buffers(args.table)
    problem = PackingProblem(buffers, args.capacity)
    began = time.perf_counter()
    with stages() as stage:
        stage(f"pack {len(buffers)} buffers")
        limit = Limit(args.time_limit * steps_per_second(), args.time_limit)
        solution = solve(problem, limit)
        validate(problem, solution)
    seconds = time.perf_counter() - began
    if args.capacity is not None and solution.height > args.capacity:
        raise _too_high(solution, args.capacity, args.table)
    write_plan(args.output, buffers, solution)
    if args.json:
        emit_json(_data(solution, len(buffers), args.output, seconds))
    else:
        emit(*aligned(_rows(solution, len(buffers), args.output, seconds)))
    return ExitCode.OK


def _too_high(solution: "PackingSolution", capacity: int, table: Path) -> BudgetError:
    """The error for a plan that needs more than there is."""
    need = f"the smallest found takes {solution.height} bytes, and no plan takes fewer than "
    return BudgetError(
        f"no plan was found within {capacity} bytes: {need}{solution.lower_bound}",
        where=str(table),
        hint=f"give a --capacity of at least {solution.lower_bound}"
        if capacity < solution.lower_bound
        else "give a larger --capacity or a longer --time-limit",
    )


def _data(
    solution: "PackingSolution", buffers: int, output: Path, seconds: float
) -> dict[str, Any]:
    return {
        "plan": str(output),
        "buffers": buffers,
        "height": solution.height,
        "lower_bound": solution.lower_bound,
        "gap": solution.height - solution.lower_bound,
        "proven_optimal": solution.proven_optimal,
        "seconds": seconds,
    }


def _rows(
    solution: "PackingSolution", buffers: int, output: Path, seconds: float
) -> list[tuple[str, str]]:
    gap = solution.height - solution.lower_bound
    share = gap / max(1, solution.lower_bound)
    return [
        ("plan", str(output)),
        ("buffers", f"{buffers:,}"),
        ("height", f"{solution.height:,} bytes"),
        ("lower bound", f"{solution.lower_bound:,} bytes"),
        ("gap", f"{gap:,} bytes, {share:.2%}"),
        ("proven optimal", "yes" if solution.proven_optimal else "no"),
        ("time", f"{seconds:.1f} s"),
    ]
