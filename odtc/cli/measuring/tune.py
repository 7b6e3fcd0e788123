"""`odtc tune`: measures kernels of a training step in other shapes, and keeps the best."""

import argparse
import dataclasses
import re

from odtc.backends.targets import parse_target
from odtc.cli.compiling.step_options import add_step_options, step_options
from odtc.cli.console import emit, emit_json, say, stages
from odtc.cli.measuring.tune_tables import listed, report, watching
from odtc.cli.options import add_json_option, at_least
from odtc.cli.switches import Switch
from odtc.core.errors import ExitCode

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "tune",
        help="find the fastest loops for a model's kernels by measuring",
        description="Build the matrix products and convolutions of a training step with other "
        "tiles, blocks and tasks than odtc would choose, measure them on this machine or on "
        "devices, and keep the best in a file, from which `odtc compile` takes them for the same "
        "target and device. Run the same command again to continue after an interruption.",
    )
    add_step_options(parser)
    add = parser.add_argument
    add("--list", action=Switch, help="only list what there is to tune")
    add(
        "--time",
        type=seconds_of,
        default=600,
        metavar="T",
        help="time after which no more trials are started, such as 90s, 10m or 1h (default: 10m)",
    )
    add(
        "--trials",
        type=at_least(1),
        metavar="N",
        help="maximum number of trials, including those of earlier runs",
    )
    add(
        "--devices",
        "--device",
        nargs="+",
        default=[],
        metavar="URL",
        help="devices of one kind to measure on in parallel; see `odtc profile` (default: this "
        "machine)",
    )
    add(
        "--part",
        type=part,
        default=(1, 1),
        metavar="K/N",
        help="tune only part K of N, such as 1/2, so that N hosts share the work, each with its "
        "own devices; `odtc db merge` joins their results",
    )
    add(
        "--rounds",
        type=at_least(3),
        default=15,
        metavar="N",
        help="number of steps to measure at the end, in turns without and with the new loops "
        "(default: 15)",
    )
    add(
        "--cooldown",
        type=float,
        nargs="?",
        const=None,
        default=False,
        metavar="CELSIUS",
        help="before measuring, wait up to 10 minutes until the device is no hotter than this "
        "(without a number: than at the start)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tunes, and prints what it was good for."""
    options = step_options(args)
    with stages() as progress:
        progress("load the compiler")
        from odtc.autoschedule.tuning.tasks import part_of
        from odtc.autoschedule.tuning.tuning import TuningLimits
        from odtc.autoschedule.tuning.workers import check_system
        from odtc.runtime_rpc.metrics.cooldown import Cooldown
        from odtc.tuner.tuning import compare, tune, work_on

        if not args.list:
            check_system()
        work = work_on(args.model, parse_target(args.target), options, progress)
        work = dataclasses.replace(work, tasks=part_of(work.tasks, *args.part))
    if args.list:
        lines, data = listed(work.tasks)
    else:
        limits = TuningLimits(args.time, args.trials or TuningLimits.trials)
        say(f"{len(work.tasks)} tasks; trials go to {work.file}")
        with watching(work.tasks) as watch:
            cooldown = None if args.cooldown is False else Cooldown(args.cooldown)
            state = tune(work, args.devices, limits, watch, say, cooldown)
        with stages() as progress:
            compared = compare(work, args.devices, args.rounds, progress)
        lines, data = report(work.tasks, state, compared)
    if args.json:
        emit_json(data)
    else:
        emit(*lines)
    return ExitCode.OK


def seconds_of(text: str) -> float:
    """Reads a time such as `10m`, for argparse."""
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m or 1h")
    return int(match[1]) * _UNITS[match[2]]


def part(text: str) -> tuple[int, int]:
    """Reads a part such as `1/2`, for argparse."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = (int(each) for each in match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 1/2 or 2/2")
    return number, count
