"""`odtc plan`: which memory budgets a step can meet, and what they cost in time."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.compiling.step_options import add_step_options, check_is_not_read, step_options
from odtc.cli.console import aligned, emit, emit_json, readable_bytes, say, stages
from odtc.cli.model.inspect import picture
from odtc.cli.options import add_json_option
from odtc.core.disk.files import check_writable
from odtc.core.errors import ExitCode
from odtc.driver.options.option import arguments_of

if TYPE_CHECKING:
    from odtc.driver.frontier import Frontier

# Lines that are printed, but for one; the points are many more, and close to each other.
_SHOWN = 16


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "plan",
        help="show which memory budgets a step can meet",
        description="Show how small a training step can be made by recomputing tensors or by "
        "micro-batches, and how much time that costs: values for `odtc compile --memory-budget`. "
        "Nothing is compiled.",
    )
    add_step_options(parser)
    parser.add_argument(
        "--plot",
        type=picture,
        metavar="FILE",
        help="plot memory against time as FILE.svg or FILE.html",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plans, and prints a table."""
    options = step_options(args)
    if args.plot:
        check_is_not_read(args.plot, args.model, options, "give the picture a name of its own")
        check_writable(args.plot)
    with stages() as progress:
        progress("load the compiler")
        from odtc.driver.entry_points import plan_model

        # What is drawn, or printed as data, has all points.
        count = None if args.plot or args.json else _SHOWN
        found = plan_model(
            args.model,
            args.target,
            count=count,
            progress=progress,
            **arguments_of(options),
        )
    if args.plot:
        from odtc.cli.pictures.frontier_plot import draw

        draw(found, f"{Path(args.model).name} on {args.target}", args.plot)
    if args.json:
        emit_json(dataclasses.asdict(found))
        return ExitCode.OK
    if found.lengths:
        emit(*aligned(_lengths(found)), "", f"at length {found.lengths[0].length}:")
    emit(*aligned(_rows(found)))
    beside = found.parameter_bytes + found.optimizer_bytes
    say(
        f"beside the budget: {readable_bytes(beside)} of parameters and optimizer state; none is "
        f"below {readable_bytes(found.lower_bound_bytes)}; times are {_source(found)}, over the "
        "step as it is"
    )
    if found.by_threads:
        say(_threads(found))
    if found.refusal:
        say(f"no micro-batches: {found.refusal}")
    return ExitCode.OK


def _threads(found: "Frontier") -> str:
    """What the step takes for other numbers of threads."""
    with_each = [f"{readable_bytes(size)} with {n}" for n, size in found.by_threads.items()]
    return (
        f"for at most {found.threads} threads, of which each has workspaces; alive at once, of the "
        f"step as it is: {', '.join(with_each)} (threads=N of the target)"
    )


def _source(found: "Frontier") -> str:
    """Where times come from."""
    gpu, measured = found.modelled_for, found.measured_calls
    model = f"modelled for {gpu}" if gpu else "those of a model of the target"
    return f"measured of {measured} calls, else {model}" if measured else model


def _lengths(found: "Frontier") -> list[tuple[str, ...]]:
    """What the step takes at each length; times are those of a model of the target."""
    rows = [("length", "tokens", "arena", "bytes", "at least", "tokens/s, modelled")]
    for each in found.lengths:
        nbytes, least = each.arena_bytes, readable_bytes(each.least_bytes)
        sizes = readable_bytes(nbytes), f"{nbytes:,}", least
        rows.append((str(each.length), str(each.tokens), *sizes, f"{each.tokens_per_second:,.0f}"))
    return rows


def _rows(found: "Frontier") -> list[tuple[str, ...]]:
    """Points from the fastest to the smallest, about as far from each other in bytes."""
    from odtc.passes.checkpoint.plans.spaced import spaced

    titles = ("budget", "bytes", "time", "micro-batches", "calls again")
    points = found.points
    # Columns that are shown where not all points are alike: a name, values, what they are mostly.
    more = [
        ("in a file", [readable_bytes(each.stored_bytes) for each in points], readable_bytes(0)),
        ("saved as", ["float16" if each.half else "float32" for each in points], "float32"),
        ("convolutions", ["direct" if each.direct else "fastest" for each in points], "fastest"),
    ]
    shown = {name: values for name, values, usual in more if {*values} != {usual}}
    rows: list[tuple[str, ...]] = [(*titles, *shown)]
    for number in spaced([point.budget_bytes for point in points], _SHOWN):
        point = points[number]
        nbytes, again = point.budget_bytes, f"{point.repeated} of {point.calls}"
        parts = str(point.micro_batches)
        row = (readable_bytes(nbytes), f"{nbytes:,}", f"{point.time:.3f}", parts, again)
        rows.append((*row, *(column[number] for column in shown.values())))
    return rows
