"""`odtc train`: runs a training step over a data set, here or on a device."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.interrupts import StopRequest
from odtc.cli.options import add_json_option, group_of
from odtc.cli.training.accuracy import held_out
from odtc.cli.training.checkpoints import Checkpoints, add_checkpoint_options
from odtc.cli.training.course import Course, add_course_options
from odtc.cli.training.loop import Done, Steps, take_steps
from odtc.cli.training.reconnect import RecoverableTrainer
from odtc.cli.training.resuming import ANYWAY, check_same_run, run_identity
from odtc.cli.training.running import Running, add_running_options
from odtc.cli.training.summary import Finished, print_summary, say_ended
from odtc.cli.training.trained_model import (
    Export,
    add_export_options,
    export_model,
    rehearse_export,
)
from odtc.core.disk.files import check_new_folder, check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.trainer import Trainer


@dataclass(frozen=True)
class _Asked:
    """The options of a run.

    Attributes:
        artifact: the file of the step.
        eval_data: samples on which the accuracy is measured; None for none.
        course: over which samples, for how long, at which rates.
        keep: its checkpoints.
        export: what is written of the trained model.
        running: where and how it takes steps.
        json: whether one object is printed.
    """

    artifact: Path
    eval_data: Path | None
    course: Course
    keep: Checkpoints
    export: Export
    running: Running
    json: bool

    @staticmethod
    def of(args: argparse.Namespace) -> "_Asked":
        """The options as they were read."""
        return _Asked(
            args.artifact,
            args.eval_data,
            group_of(Course, args),
            group_of(Checkpoints, args),
            group_of(Export, args),
            group_of(Running, args),
            args.json,
        )

    def check(self) -> None:
        """Finds what is wrong with the options before any work is done.

        Raises:
            UsageError: an option needs another one, or files are the same.
            OutputError: a file that is to be written cannot be.
        """
        self.keep.check()
        self.export.check()
        if self.running.elsewhere and not (self.running.device and self.keep.checkpoint):
            raise UsageError(
                "--elsewhere goes on with the checkpoint of a run on a device",
                hint="give --device and --checkpoint, too",
            )
        outputs = (self.keep.checkpoint, *self.export.files)
        folder = self.export.export_peft
        inputs = (self.artifact, self.course.data, self.eval_data, self.keep.load_adapters)
        check_outputs((*outputs, folder), {"what the run reads": inputs})
        for path in filter(None, outputs):
            check_writable(path)
        if folder:
            check_new_folder(folder)

    def check_manifest(self, manifest: "Manifest") -> None:
        """Checks that the artifact has what is to be exported.

        Raises:
            UsageError: it keeps no averages, or trains no adapters.
        """
        if self.export.ema and manifest.update["ema"] is None:
            raise UsageError(
                "the artifact keeps no moving averages", hint="compile it with --ema, such as 0.999"
            )
        asked = {
            "export-adapters": self.export.export_adapters,
            "export-peft": self.export.export_peft,
            "export-gguf": self.export.export_gguf,
            "load-adapters": self.keep.load_adapters,
        }
        for name, given in asked.items():
            if given and not manifest.adapters:
                raise UsageError(
                    "the artifact trains no adapters",
                    where=str(self.artifact),
                    hint=f"compile the model with --lora, or leave --{name} out",
                )


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "train",
        help="train with an artifact",
        description="Runs a training step over a data set, on this machine or on a device.",
        epilog="Ctrl-C, SIGTERM and SIGHUP end the run after the step that it is in, and write the "
        "checkpoint. A second one ends it at once.",
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ART", help="the artifact")
    add_course_options(parser)
    add_checkpoint_options(parser)
    add("--eval-data", type=Path, metavar="NPZ", help="measure the accuracy on this at the end")
    add("--ema", action="store_true", help="measure and export the moving averages of the weights")
    add_export_options(parser)
    add_running_options(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, and prints one line or object about it."""
    asked = _Asked.of(args)
    asked.check()
    # Imported here: samples bring numpy.
    from odtc.artifact import load
    from odtc.cli.training.samples import batches, read_samples, steps_per_epoch

    course, keep = asked.course, asked.keep
    artifact = load(asked.artifact)
    manifest = artifact.manifest
    asked.check_manifest(manifest)
    held = held_out(asked.eval_data, manifest) if asked.eval_data else None
    samples = read_samples(course.data, manifest)
    per_epoch = steps_per_epoch(samples, manifest.batch, course.data)
    total = course.total(per_epoch)
    left = len(samples) - per_epoch * manifest.batch
    if left:
        say(f"note: each epoch leaves {left} of {len(samples)} samples out: they fill no batch")
    steps = Steps(total, asked.running.steps_per_call, course.rates(total // manifest.accumulate))
    identity = run_identity(samples, course.seed, steps.schedule) if keep.checkpoint else {}
    run = _started(artifact, asked.running, keep, identity, total)
    done = Done()

    def work(trainer: "Trainer") -> "Finished | StopRequest":
        """The whole run from the trainer's step on; the signal that ended it before."""
        done.emulated |= bool(trainer.session.info()["emulated"])
        if not done.steps:
            rehearse_export(trainer, asked.export)
        feed = batches(samples, manifest.batch, course.seed, trainer.steps)
        ended = take_steps(trainer, feed, steps, keep, done)
        _say_skipped(trainer)
        if ended.number:
            return ended
        exported = export_model(trainer, asked.export, keep.checkpoint)
        return Finished(
            trainer.steps, exported, held and held.accuracy(trainer, ema=asked.export.ema)
        )

    found = run.through(work)
    if isinstance(found, StopRequest):
        say_ended(found, run.trainer.steps, total, keep.checkpoint)
        return found.code
    files = {
        "adapters": asked.export.export_adapters,
        "peft": asked.export.export_peft,
        "gguf": asked.export.export_gguf,
        "checkpoint": keep.checkpoint,
    }
    print_summary(found, done, manifest.batch, files, is_json=asked.json)
    return ExitCode.OK


def _started(
    artifact: "Artifact",
    running: Running,
    keep: Checkpoints,
    identity: dict[str, str],
    total: int,
) -> RecoverableTrainer:
    """The trainer, at the step that the run goes on from, and what is said of its checkpoint.

    Raises:
        OdtcError: there is no such device; or what goes on would be another run.
    """
    existed = bool(keep.checkpoint and keep.checkpoint.exists())
    if keep.resume and keep.checkpoint:
        anyway = keep.resume == ANYWAY
        check_same_run(keep.checkpoint, artifact.manifest, identity, anyway=anyway)
    run = RecoverableTrainer(artifact, running, keep, identity)
    if keep.resume:
        say(f"resumed from {keep.checkpoint} at step {run.trainer.steps} of {total}")
    elif existed:
        say(f"note: {keep.checkpoint} will be replaced; --resume would take it up")
    return run


def _say_skipped(trainer: "Trainer") -> None:
    if count := trainer.skipped:
        what = f"{count} of {trainer.updates} updates were left out"
        say(f"note: {what}: not all of their gradients were finite")
