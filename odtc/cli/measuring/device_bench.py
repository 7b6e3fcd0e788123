"""`odtc bench --device`: a suite of models on a device, in a file that can be sent."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, say, stages
from odtc.cli.measuring.sweep_tables import tables
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import ExitCode, UsageError
from odtc.core.options.cores import BIG

if TYPE_CHECKING:
    from odtc.backends.targets import Target
    from odtc.comparison.suite import Suite
    from odtc.core.process.progress import Progress
    from odtc.runtime_rpc.sessions.session import Session
    from odtc.runtime_rpc.sweep.sweep import SweepCase
    from odtc.runtime_rpc.trainer import Trainer

DEFAULT_TARGET = "android-cpu"
# Of `odtc bench`: what says how engines are compared, which happens on this machine only.
_OF_COMPARISONS = {
    "peers": "--with",
    "budget": "--budget",
    "memory_limit": "--memory-limit",
    "roofline": "--roofline",
    "limit": "--limit",
}


def check_options(args: argparse.Namespace) -> None:
    """Checks that no option is given that the other kind of measurement has.

    Raises:
        UsageError: there is one.
    """
    if args.device is None and args.target:
        raise UsageError("--target needs --device", hint="`odtc compare --target` takes it, too")
    given = [option for name, option in _OF_COMPARISONS.items() if getattr(args, name)]
    if args.device is not None and given:
        raise UsageError(
            f"{given[0]} compares engines on this machine; --device measures odtc alone",
            hint=f"leave out {', '.join(given)}",
        )


def measure(
    args: argparse.Namespace, suite: "Suite", models: Sequence[str], output: Path
) -> ExitCode:
    """Measures what has no row yet, and prints tables or one object.

    Args:
        args: of `odtc bench`.
        suite: of the models.
        models: of the suite.
        output: for the rows.
    """
    with stages() as progress, temporary_folder() as folder:
        progress("load the compiler")
        from odtc.backends.targets import CPU, parse_target
        from odtc.runtime_rpc.fit import check_on_cpu
        from odtc.runtime_rpc.sweep.plan import Choices
        from odtc.runtime_rpc.sweep.row import results_of, row_file
        from odtc.runtime_rpc.sweep.sweep import Sweep, SweepConfig

        target = parse_target(args.target or DEFAULT_TARGET)
        check_on_cpu({"threads": args.threads}, target)
        batches = args.batch or suite.batches
        cases = [
            _case(suite, model, batch, target, folder, progress)
            for model in models
            for batch in batches
        ]
        file = row_file(output, _identity(args, suite, target.spec))
        sweep = Sweep(
            cases,
            Choices((BIG,) if target.kind == CPU else (), tuple(args.threads or ())),
            SweepConfig(args.steps, args.rounds),
            args.device,
            progress,
        )
        sweep.run(file)
    if args.json:
        emit_json({"file": str(output), "rows": [row.to_dict() for row in file.rows]})
    else:
        emit(*tables(results_of(file.rows)))
        say(f"rows are in {output}; docs/phones.md says where to send them")
    return ExitCode.OK


def _case(
    suite: "Suite", model: str, batch: int, target: "Target", folder: Path, progress: "Progress"
) -> "SweepCase":
    """A step that is compiled when it is first measured, and kept in the folder."""
    from odtc.runtime_rpc.sweep.sweep import SweepCase

    artifact = folder / f"{model.replace('/', '-')}-{batch}.odtc"

    def start(session: "Session") -> "Trainer":
        from odtc.artifact import load

        if not artifact.exists():
            progress(f"compile {model} for batch {batch}")
            _compile(suite, model, batch, target, artifact)
        return load(artifact).trainer(session)

    return SweepCase(model, batch, target, start, partial(_drawn, artifact))


def _compile(suite: "Suite", model: str, batch: int, target: "Target", artifact: Path) -> None:
    from odtc.comparison.suite import made
    from odtc.driver.entry_points import compile_model
    from odtc.frontend.losses.terms import parse_terms

    with temporary_folder() as folder:
        case = made(suite, model, batch, folder)
        loss, shape = parse_terms(list(case.loss)), dict(case.shape)
        compile_model(case.model, target, batch=batch, loss=loss, shape=shape).save(artifact)


def _drawn(artifact: Path) -> Iterator[tuple[Any, Any]]:
    from odtc.artifact import load
    from odtc.runtime_rpc.data.drawn import drawn

    return drawn(load(artifact).manifest)


def _identity(args: argparse.Namespace, suite: "Suite", target: str) -> dict[str, Any]:
    """What the file says of all its rows; models, batches, threads and rounds may be added to."""
    from odtc.comparison.measures.measure import commit, versions
    from odtc.core.artifact.bundle import file_sha256
    from odtc.runtime_rpc.sweep.described import described_device

    return {
        "suite": {"title": suite.title, "sha256": file_sha256(suite.path)},
        "target": target,
        "steps": args.steps,
        "device": described_device(args.device),
        "versions": versions(),
        "commit": commit(),
    }
