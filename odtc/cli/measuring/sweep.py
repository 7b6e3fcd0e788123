"""`odtc sweep`: a training step by cores, threads, batch and frequency, in turns."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, say, stages
from odtc.cli.measuring.sweep_tables import tables
from odtc.cli.options import (
    add_json_option,
    add_weights_folder,
    at_least,
    load_artifact,
    output_file,
    parse_shape,
)
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, OdtcError, UsageError
from odtc.core.options.cores import parse_cores
from odtc.runtime_rpc.server.measure.frequency import LEVELS

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.backends.targets import Target
    from odtc.core.process.progress import Progress
    from odtc.runtime_rpc.sessions.session import Session
    from odtc.runtime_rpc.sweep.sweep import SweepCase
    from odtc.runtime_rpc.trainer import Trainer

_MODEL = ".onnx"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "sweep",
        help="measure a training step over cores, threads and batch sizes",
        description="Take training steps with each combination of cores, threads, batch size and "
        "frequency, in turns, on this machine or on a device, and print their times and energy.",
        epilog="Each result is written as a row to a file as soon as it is measured; run the "
        "same command again to continue after an interruption. A combination that cannot run "
        "becomes a row with the reason.",
    )
    add = parser.add_argument
    add(
        "inputs",
        nargs="+",
        metavar="ART|MODEL.onnx",
        help="artifacts, each with its own batch size, or models, which are compiled for each "
        "--batch",
    )
    add(
        "--batch",
        type=at_least(1),
        nargs="+",
        default=[],
        metavar="N",
        help="batch sizes for models",
    )
    add("--target", default="host-cpu", metavar="T", help="target for models (default: host-cpu)")
    add(
        "--loss",
        nargs="+",
        default=["cross-entropy"],
        metavar="L",
        help="loss for models; see `odtc compile`",
    )
    add(
        "--shape",
        type=parse_shape,
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="sizes of symbolic dimensions of models",
    )
    add(
        "--cores",
        type=parse_cores,
        nargs="+",
        default=[],
        metavar="C",
        help="cores to use: big, little, all, or numbers such as 4,5 (default: big, little and "
        "all)",
    )
    add(
        "--threads",
        type=at_least(1),
        nargs="+",
        default=[],
        metavar="N",
        help="numbers of worker threads (default: 1, 2, 4 … up to the number of cores)",
    )
    add(
        "--frequency",
        choices=LEVELS,
        nargs="+",
        default=[],
        help="maximum core frequency, if it can be set on the device (default: as it is)",
    )
    add(
        "--steps",
        type=at_least(1),
        default=10,
        metavar="N",
        help="number of steps per turn (default: 10)",
    )
    add(
        "--rounds",
        type=at_least(1),
        default=3,
        metavar="N",
        help="number of turns of each combination (default: 3)",
    )
    add("--device", metavar="URL", help="device to use; see `odtc profile` (default: this machine)")
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
    add(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file for the rows (default: stem of the first input, plus .sweep.jsonl)",
    )
    add_weights_folder(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures what has no row yet, and prints tables or one object."""
    output = args.output or Path(f"{Path(args.inputs[0]).stem}.sweep.jsonl")
    check_outputs([output], {"what is measured": args.inputs})
    with stages() as progress:
        progress("load the compiler")
        from odtc.runtime_rpc.metrics.cooldown import Cooldown
        from odtc.runtime_rpc.sweep.plan import Choices
        from odtc.runtime_rpc.sweep.row import results_of, row_file
        from odtc.runtime_rpc.sweep.sweep import Sweep, SweepConfig

        cases = _cases(args, progress)
        file = row_file(output, _identity(args))
        cooldown = None if args.cooldown is False else Cooldown(args.cooldown)
        sweep = Sweep(
            cases,
            Choices(tuple(args.cores), tuple(args.threads), tuple(args.frequency) or ("",)),
            SweepConfig(args.steps, args.rounds, cooldown),
            args.device,
            progress,
        )
        sweep.run(file)
    results = results_of(file.rows)
    if args.json:
        emit_json({"file": str(output), "rows": [row.to_dict() for row in file.rows]})
    else:
        emit(*tables(results))
        if sweep.frequency_note:
            emit(sweep.frequency_note)
        say(f"rows are in {output}")
    return ExitCode.OK


def _identity(args: argparse.Namespace) -> dict[str, Any]:
    """The identity of a sweep; choices and rounds may be added to."""
    from odtc.core.artifact.bundle import file_sha256
    from odtc.runtime_rpc.sweep.described import described_device

    device = described_device(args.device) if args.device else None
    inputs = {path: file_sha256(Path(path)) for path in args.inputs}
    of_models = {"target": args.target, "loss": args.loss, "shape": dict(args.shape)}
    return {"inputs": inputs, "device": device, "steps": args.steps, **of_models}


def _cases(args: argparse.Namespace, progress: "Progress") -> "list[SweepCase]":
    """Artifacts, and models with each batch.

    Raises:
        UsageError: a model has no batch, or two inputs would have the same name.
        ArtifactError: an artifact cannot be read.
    """
    from odtc.backends.compiled_for import target_of
    from odtc.backends.targets import parse_target

    target = parse_target(args.target)
    found: list[SweepCase] = []
    for path in args.inputs:
        if path.endswith(_MODEL):
            if not args.batch:
                raise UsageError(
                    "a model needs --batch",
                    where=path,
                    hint="give one or more sizes, such as --batch 1 2 4",
                )
            found += [
                _case(path, each, target, _compiled(args, path, each, progress))
                for each in args.batch
            ]
        else:
            artifact = load_artifact(path, args.weights_folder)
            its, batch = target_of(artifact.manifest), artifact.manifest.batch
            found.append(_case(path, batch, its, lambda it=artifact: it))
    names = [(each.model, each.batch) for each in found]
    if len(set(names)) < len(names):
        raise UsageError(
            "two inputs have the same name and batch", hint="give each once, or rename a file"
        )
    return found


def _compiled(
    args: argparse.Namespace, path: str, batch: int, progress: "Progress"
) -> "Callable[[], Artifact]":
    """Compiles a model when it is first asked for; a failure stays one."""
    outcome: list[Artifact | OdtcError] = []

    def compiled() -> "Artifact":
        from odtc.driver.entry_points import compile_model
        from odtc.frontend.losses.terms import parse_terms

        if not outcome:
            progress(f"compile {path} for batch {batch}")
            try:
                loss, shape = parse_terms(args.loss), dict(args.shape)
                outcome.append(
                    compile_model(path, args.target, batch=batch, loss=loss, shape=shape)
                )
            except OdtcError as error:
                outcome.append(error)
        if isinstance(outcome[0], OdtcError):
            raise outcome[0]
        return outcome[0]

    return compiled


def _case(
    path: str, batch: int, target: "Target", artifact: "Callable[[], Artifact]"
) -> "SweepCase":
    from odtc.runtime_rpc.data.drawn import drawn
    from odtc.runtime_rpc.sweep.sweep import SweepCase

    def start(session: "Session") -> "Trainer":
        return artifact().trainer(session)

    def feed() -> "Iterator[tuple[Any, Any]]":
        return drawn(artifact().manifest)

    return SweepCase(Path(path).stem, batch, target, start, feed)
