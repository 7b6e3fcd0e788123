"""The command line: see the package."""

import argparse
import dataclasses
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

import benchmarks.budget as package
from benchmarks.budget.report import (
    draw,
    failures,
    figures_of,
    parity_table,
    peer_figures,
    way_table,
)
from benchmarks.budget.ways import LEVERS, PEERS, BudgetTerms, NetworkWays, found_ways
from benchmarks.memory.__main__ import chosen_networks
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
from benchmarks.step_time.cases import case_of, names
from odtc.core.errors import OdtcError
from odtc.core.options.byte_sizes import parse_bytes

NETWORKS = ("zoo/squeezenet", "resnet18", "vgg16")


def shares(text: str) -> list[float]:
    """Shares of an arena, joined by commas, or `none`.

    Raises:
        ArgumentTypeError: one is not between 0 and 1.
    """
    if text == "none":
        return []
    try:
        found = [float(each) for each in text.split(",")]
    except ValueError:
        found = [0.0]
    if not all(0 < each < 1 for each in found):
        raise argparse.ArgumentTypeError(f"{text!r} are not shares between 0 and 1")
    return found


def totals(text: str) -> list[int]:
    """Sizes in bytes, joined by commas.

    Raises:
        ArgumentTypeError: one is none.
    """
    try:
        return [parse_bytes(each, "--totals") for each in text.split(",")]
    except OdtcError as error:
        raise argparse.ArgumentTypeError(error.what) from None


def peers(text: str) -> list[str]:
    """Names of peers, joined by commas, `all` or `none`.

    Raises:
        ArgumentTypeError: there is no such peer.
    """
    return [] if text == "none" else listed(text, list(PEERS), "peer")


def levers(text: str) -> list[str]:
    """Names of levers, joined by commas.

    Raises:
        ArgumentTypeError: there is no such lever.
    """
    return listed(text, list(LEVERS), "lever")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.budget",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Networks: {', '.join(names())}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add("--shares", type=shares, default="0.75,0.5,0.35,0.25", help="of the arena, or none")
    add("--totals", type=totals, default=(), help="budgets of all bytes, such as 2GiB")
    add("--peers", type=peers, default="all", help=f"of {', '.join(PEERS)}, all or none")
    add_sizes(parser, batch=8, threads=1)
    add("--steps", type=positive, default=10, help="timed steps of each way")
    add("--runs", type=positive, default=3, help="processes that each way is measured in")
    parser.add_argument(
        "--allow-split-batchnorm", action="store_true", help="micro-batches have their statistics"
    )
    add(
        "--levers",
        type=levers,
        default=(),
        help=f"each budget with these, too: {', '.join(LEVERS)}",
    )
    parser.add_argument(
        "--only-budgets",
        action="store_true",
        help="no step without a budget, no peers, no times: with --totals and --shares none",
    )
    add_files(parser, "budget", ["picture"])
    add_figures(parser, "budgets/batch_8")
    return parser


def _found(name: str, options: argparse.Namespace, console: Console) -> NetworkWays:
    case = dataclasses.replace(case_of(name, options.batch, symbolic=True), threads=options.threads)
    terms = BudgetTerms(
        options.shares,
        options.totals,
        options.peers,
        options.allow_split_batchnorm,
        options.levers,
        options.steps,
        options.runs,
        options.only_budgets,
    )
    with tempfile.TemporaryDirectory() as folder:
        return found_ways(
            case, terms, Path(folder), lambda what: console.print(f"{name}: {what} ...")
        )


def main() -> int:
    """Makes the table; returns the exit status: 1 where losses of odtc differ."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"threads": options.threads}
    title = introduce(console, said, f"batch {options.batch}, threads {options.threads}")
    found: list[NetworkWays] = []
    for name in options.networks:
        found.append(_found(name, options, console))
        # A run takes long: what is there is written after each network.
        write_json(said, "networks", found, options.json)
    console.print(parity_table(found), way_table(found))
    console.print(*failures(found), f"all numbers: {options.json}", sep="\n")
    write_figures(options.figures, said, figures_of(found), pytorch=peer_figures(found))
    draw(found, title, options.picture)
    return 1 if any(_differs(item) for item in found) else 0


def _differs(item: NetworkWays) -> bool:
    """Whether a step within a budget has other losses than the step as it is."""
    ours = {way.name for way in item.ways if way.plan is not None}
    return any(timing.skipped for timing in item.comparison.timings if timing.engine in ours)


if __name__ == "__main__":
    sys.exit(main())
