"""`odtc profile`: where the time of training steps goes, and the state of the device meanwhile."""

import argparse
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import aligned, emit, emit_json, readable_bytes, say, stages
from odtc.cli.options import (
    CORES_HELP,
    add_json_option,
    add_steps_per_call,
    add_weights_folder,
    at_least,
    load_artifact,
    output_file,
)
from odtc.cli.training.running import say_idle_cores
from odtc.core.disk.files import check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode
from odtc.core.options.cores import parse_cores

if TYPE_CHECKING:
    from collections.abc import Iterable

    from odtc.core.process.progress import Progress
    from odtc.runtime_rpc.data.source import Batch
    from odtc.runtime_rpc.profile.launches import Launch, Launches
    from odtc.runtime_rpc.profile.record import Profile
    from odtc.runtime_rpc.trainer import Trainer

# Steps that nobody looks at: the paper skips as many.
_WARM_UP = 3
_SHOWN = 20
_WIDTH = 60
# What a device says of itself: key, head, and what its unit is divided by.
_FELT = (
    ("utilization", "cores, %", 1.0),
    ("frequency", "GHz", 1e9),
    ("gpu", "GPU, %", 1.0),
    ("power", "W", 1.0),
)

_Rows = list[tuple[str, ...]]


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "profile",
        help="show where the time of a training step goes",
        description="Take training steps on this machine or on a device, and report the time of "
        "each operator and the state of the device meanwhile: utilization, frequency, power, "
        "temperature.",
        epilog=f"{_WARM_UP} warm-up steps come first, and are not counted. The artifact is not "
        "changed.",
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ART", help="artifact written by `odtc compile`")
    add(
        "--steps",
        type=at_least(1),
        default=10,
        metavar="N",
        help="number of steps to profile (default: 10)",
    )
    add("--data", type=Path, metavar="NPZ", help="samples; see `odtc train` (default: random)")
    add(
        "--device",
        metavar="URL",
        help="device to use: rpc://HOST:PORT/KEY of a tracker, or adb://SERIAL (default: this "
        "machine)",
    )
    add("--threads", type=int, metavar="N", help="number of worker threads for a step on a CPU")
    add("--cores", type=parse_cores, metavar="C", help=CORES_HELP)
    add_steps_per_call(parser)
    add(
        "--length",
        type=at_least(1),
        metavar="N",
        help="length to profile, if the step was compiled for several (default: the longest)",
    )
    add(
        "--period",
        type=float,
        default=10.0,
        metavar="MS",
        help="milliseconds between samples of the device's state (default: 10)",
    )
    add(
        "--cooldown",
        type=float,
        metavar="CELSIUS",
        help="before measuring, wait up to 10 minutes until the device is no hotter than this",
    )
    add("--trace", type=output_file, metavar="FILE", help="write a trace for ui.perfetto.dev")
    add("--html", type=output_file, metavar="FILE", help="write an HTML page with the timeline")
    add_weights_folder(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Profiles, and prints tables or one object."""
    outputs = (args.trace, args.html)
    check_outputs(outputs, {"what the run reads": (args.artifact, args.data)})
    for path in filter(None, outputs):
        check_writable(path)
    # Imported here: samples bring numpy.
    from odtc.cli.pictures.timeline import draw
    from odtc.cli.training.sources import read_source
    from odtc.runtime_rpc.data.drawn import drawn
    from odtc.runtime_rpc.data.source import Stream
    from odtc.runtime_rpc.data.wanted import ReadOptions
    from odtc.runtime_rpc.profile.lengths import check_length
    from odtc.runtime_rpc.profile.trace import write_trace

    artifact = load_artifact(args.artifact, args.weights_folder)
    manifest = artifact.manifest
    check_length(manifest, args.length, "--length")
    feed: Iterable[Batch]
    if args.data:
        feed = Stream(read_source(args.data, manifest, ReadOptions()), manifest.batch, 0).batches(0)
    else:
        feed = drawn(manifest.lengths.get(args.length, manifest))
    with stages() as progress:
        progress("loading the step on the device")
        trainer = artifact.trainer(args.device, args.threads, args.cores)
        if not (args.threads or args.cores):
            say_idle_cores(trainer)
        profile, launches = _profiled(trainer, feed, args, progress)
    if args.trace:
        write_trace(profile, args.trace)
    if args.html:
        draw(profile, args.html)
    if args.json:
        told = {kernel: [asdict(each) for each in of] for kernel, of in launches.items()}
        emit_json(profile.to_dict() | ({"launches": told} if told else {}))
    else:
        emit(*report(profile, launches))
        for path in filter(None, (args.trace, args.html)):
            say(f"wrote {path}")
    return ExitCode.OK


def _profiled(
    trainer: "Trainer", feed: "Iterable[Batch]", args: argparse.Namespace, progress: "Progress"
) -> "tuple[Profile, Launches]":
    """A profile, and what a GPU launches. The steps learn nothing, so that they stay finite."""
    from odtc.runtime_rpc.metrics.cooldown import Cooldown, heat_now

    batches = iter(feed)
    try:
        if args.cooldown is not None:
            late = Cooldown(args.cooldown).wait(lambda: heat_now(trainer.session), progress)
            if late:
                say(late)
        progress("taking steps")
        for x, y in islice(batches, _WARM_UP):
            trainer.step(x, y, lr=0.0)
        with trainer.profile(args.period / 1000, length=args.length) as profiling:
            list(trainer.train(islice(batches, args.steps), 0.0, args.steps_per_call))
        progress("asking what kernels take of the device")
        launches = trainer.launches()
    finally:
        trainer.session.close()
    return profiling.profile, launches


def report(profile: "Profile", launches: "Launches") -> list[str]:
    """The profile for people: phases, operators, memory, and what the device felt."""
    from odtc.runtime_rpc.metrics.throttling import throttling_within
    from odtc.runtime_rpc.metrics.usage import usage_of, usage_rows
    from odtc.runtime_rpc.profile.trace import EMULATED

    usage = usage_rows(usage_of(profile.samples))
    throttled = throttling_within(profile.samples)
    silent = [
        f"{name}: {probe.state} ({probe.detail})"
        for name, probe in profile.samples.probes.items()
        if probe.state == "denied"
    ]
    absent = [name for name, p in profile.samples.probes.items() if p.state == "absent"]
    stamps = {
        f"EMULATED: {EMULATED}": profile.emulated,
        "FIXTURE: the samples are not of this device": profile.samples.fixture,
    }
    return [
        *(stamp for stamp, holds in stamps.items() if holds),
        f"{profile.model} on {profile.device}, {len(profile.steps)} steps"
        f"{f' at a length of {profile.length}' if profile.length else ''}: "
        f"{_spread(profile)} ms on the device, {profile.coverage:.1%} of it in operators",
        "",
        *aligned(_phases(profile)),
        "",
        *aligned(_operators(profile)),
        "",
        *_launched(profile, launches),
        *aligned([*_memory(profile), *usage]),
        *filter(None, [throttled]),
        *silent,
        *([f"absent: {', '.join(absent)}"] if absent else []),
    ]


def _spread(profile: "Profile") -> str:
    ordered = sorted(profile.step_seconds)
    middle = ordered[len(ordered) // 2]
    low, high = ordered[0], ordered[-1]
    return f"{1e3 * middle:.2f} ({1e3 * low:.2f} to {1e3 * high:.2f})"


def _phases(profile: "Profile") -> _Rows:
    from odtc.runtime_rpc.profile.record import MOVES, Phase

    total = sum(profile.operator_seconds)
    shown = _shown(profile, range(len(profile.operators)))
    rows: _Rows = [("part", "ms", "share", "calls", *(head for _, head, _ in shown))]
    for phase in Phase:
        numbers = profile.of_phase(phase)
        seconds = profile.phase_seconds(phase)
        felt = _felt(profile.felt(numbers), shown)
        rows.append((phase.value, *_time(seconds, total), str(len(numbers)), *felt))
    moved = {move.kind for move in profile.moves}
    for kind in filter(moved.__contains__, MOVES):
        blank = ("",) * (2 + len(shown))
        rows.append((kind, f"{1e3 * profile.moved_seconds(kind):.3f}", *blank))
    return rows


def _operators(profile: "Profile") -> _Rows:
    total = sum(profile.operator_seconds)
    seconds = profile.operator_seconds
    slowest = sorted(range(len(seconds)), key=lambda number: -seconds[number])
    shown = _shown(profile, slowest)
    heads = tuple(head for _, head, _ in shown)
    rows: _Rows = [("operator", "part", "ms", "share", *heads, "kernel")]
    for number in slowest[:_SHOWN]:
        operator = profile.operators[number]
        label = operator.label
        label = label if len(label) <= _WIDTH else f"{label[: _WIDTH - 1]}…"
        felt = _felt(profile.felt([number]), shown)
        time = _time(seconds[number], total)
        rows.append((label, operator.phase.value, *time, *felt, operator.kernel))
    rest = slowest[_SHOWN:]
    if rest:
        left = sum(seconds[number] for number in rest)
        blank = ("",) * (1 + len(shown))
        rows.append((f"{len(rest)} others", "", *_time(left, total), *blank))
    return rows


def _launched(profile: "Profile", launches: "Launches") -> list[str]:
    """What the slowest kernels launch on a GPU, and what the driver says of them."""
    seconds = profile.operator_seconds
    slowest = sorted(range(len(seconds)), key=lambda number: -seconds[number])[:_SHOWN]
    kernels = dict.fromkeys(profile.operators[number].kernel for number in slowest)
    shown = [each for kernel in kernels for each in launches.get(kernel, ())]
    if not shown:
        return []
    heads = tuple(dict.fromkeys(name for each in shown for name in each.figures))
    rows: _Rows = [("launch", "groups", "items", *heads)]
    rows += [_launch_row(each, heads) for each in shown]
    return [*aligned(rows), ""]


def _launch_row(launch: "Launch", heads: tuple[str, ...]) -> tuple[str, ...]:
    sizes = (" x ".join(map(str, each)) for each in (launch.groups, launch.items))
    figures = (launch.figures.get(name) for name in heads)
    return (launch.kernel, *sizes, *("" if each is None else f"{each:.12g}" for each in figures))


def _shown(profile: "Profile", numbers: "Iterable[int]") -> list[tuple[str, str, float]]:
    """The known values of the device's state."""
    known = profile.felt(numbers)
    return [each for each in _FELT if each[0] in known]


def _felt(felt: dict[str, float], shown: list[tuple[str, str, float]]) -> list[str]:
    return [f"{felt[key] / scale:.3g}" if key in felt else "" for key, _, scale in shown]


def _time(seconds: float, total: float) -> tuple[str, str]:
    return f"{1e3 * seconds:.3f}", f"{seconds / total:.1%}"


def _memory(profile: "Profile") -> list[tuple[str, str]]:
    peak = profile.peak_bytes
    at = next(n for n, each in enumerate(profile.operators) if each.live_bytes == peak)
    return [
        ("parameters", readable_bytes(profile.parameter_bytes)),
        ("optimizer state", readable_bytes(profile.optimizer_bytes)),
        ("most bytes alive", f"{readable_bytes(peak)}, at {profile.operators[at].label}"),
    ]
