"""`odtc train`: runs a training step over a data set, here or on a device."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.interrupts import StopRequest
from odtc.cli.options import add_json_option, add_weights_folder, group_of, load_artifact
from odtc.cli.switches import Switch
from odtc.cli.training.adapter_runs import Known, say_which
from odtc.cli.training.checkpoints import Checkpoints, add_checkpoint_options
from odtc.cli.training.course import Course, add_course_options
from odtc.cli.training.devices.reconnect import RecoverableTrainer
from odtc.cli.training.rate_finding import check_alone, find_rate
from odtc.cli.training.read_options import add_read_options, check_read_options
from odtc.cli.training.resuming import ANYWAY, check_replaced, check_same_run
from odtc.cli.training.running import Running, add_running_options
from odtc.cli.training.sources import Trained, read_source
from odtc.cli.training.trained_model import (
    Export,
    add_export_options,
    export_model,
    rehearse_export,
)
from odtc.cli.training.watching import Watching, add_watching_options
from odtc.core.disk.files import check_new_folder, check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, UsageError
from odtc.core.options.idle import flag_of, said_of_idle
from odtc.runtime_rpc.data.wanted import ReadOptions

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.cli.training.summary import Finished
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.loop.callback import Callback
    from odtc.runtime_rpc.loop.keeping import BestCheckpoint
    from odtc.runtime_rpc.loop.run import Run
    from odtc.runtime_rpc.trainer import Trainer


@dataclass(frozen=True)
class _Asked:
    """The options of a run.

    Attributes:
        artifact: the file of the step.
        eval_data: samples that are evaluated at the end; None for none.
        course: over which samples, for how long, at which rates.
        options: how they are read.
        keep: its checkpoints.
        watching: what it measures beside its losses, and what follows from it.
        export: what is written of the trained model.
        running: where and how it takes steps.
        json: whether one object is printed.
    """

    artifact: Path
    eval_data: Path | None
    course: Course
    options: ReadOptions
    keep: Checkpoints
    watching: Watching
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
            group_of(ReadOptions, args),
            group_of(Checkpoints, args),
            group_of(Watching, args),
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
        check_read_options(self.options)
        if self.course.find_lr:
            check_alone(self._of_a_run)
        self.keep.check()
        self.export.check()
        self.watching.check()
        if self.running.elsewhere and not (self.running.device and self.keep.checkpoint):
            raise UsageError(
                "--elsewhere goes on with the checkpoint of a run on a device",
                hint="give --device and --checkpoint, too",
            )
        # They are asked for when a device was lost, which may be hours later.
        if self.running.elsewhere:
            from odtc.runtime_rpc.connect import check_url

            for url in self.running.elsewhere:
                check_url(url)
        watched = (self.watching.best, self.watching.log)
        outputs = (self.keep.checkpoint, *self.export.files, *watched)
        folder = self.export.export_peft
        data = (self.course.data, self.watching.validation, self.eval_data)
        inputs = (self.artifact, *data, self.options.tokenizer, self.keep.load_adapters)
        check_outputs((*outputs, folder), {"what the run reads": inputs})
        for path in filter(None, outputs):
            check_writable(path)
        if folder:
            check_new_folder(folder)

    @property
    def _of_a_run(self) -> dict[str, object]:
        """What is asked for that only a run does, by the option's name."""
        course, watching = self.course, self.watching
        return {
            "epochs": course.epochs,
            "steps": course.steps,
            "warmup": course.warmup,
            "eval-data": self.eval_data,
            "validation": watching.validation,
            "best": watching.best,
            "patience": watching.patience,
            "max-time": watching.max_time,
            "log": watching.log,
            "tensorboard": watching.tensorboard,
            "ema": watching.ema,
            "checkpoint": self.keep.checkpoint,
            "adapter": self.keep.adapter,
            "export": self.export.export,
            "export-adapters": self.export.export_adapters,
            "export-peft": self.export.export_peft,
            "export-gguf": self.export.export_gguf,
        }

    @property
    def files(self) -> dict[str, Path | None]:
        """The files that the run writes beside the model, by their names in a summary."""
        return {
            "adapters": self.export.export_adapters,
            "peft": self.export.export_peft,
            "gguf": self.export.export_gguf,
            "checkpoint": self.keep.checkpoint,
            "best_checkpoint": self.watching.best,
            "log": self.watching.log,
        }

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
            "adapter": self.keep.adapter,
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
        help="train a model with a compiled step",
        description="Run a compiled training step over a data set, on this machine or on a device.",
        epilog="Ctrl-C, SIGTERM and SIGHUP end the run after the current step and write the "
        "checkpoint. A second one ends it at once.",
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ART", help="artifact written by `odtc compile`")
    add_course_options(parser)
    add_read_options(parser)
    add_checkpoint_options(parser)
    add_watching_options(parser)
    add(
        "--eval-data",
        type=Path,
        metavar="DATA",
        help="data on which to measure the loss at the end, the accuracy if labels are class "
        "indices, and the perplexity of a language model",
    )
    add("--ema", action=Switch, help="evaluate and export the moving averages of the weights")
    add_export_options(parser)
    add_running_options(parser)
    add_weights_folder(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, and prints one line or object about it."""
    asked = _Asked.of(args)
    asked.check()
    # Imported here: samples bring numpy.
    from odtc.cli.training.evaluated import evaluation_of
    from odtc.cli.training.loop import Done, take_steps
    from odtc.cli.training.summary import Finished, print_summary, say_ended
    from odtc.runtime_rpc.loop.course import Course as RunCourse
    from odtc.runtime_rpc.loop.features.keeping import cache_bytes, keep_features
    from odtc.runtime_rpc.loop.run import Run

    course, keep, watching = asked.course, asked.keep, asked.watching
    kept_bytes = cache_bytes(course.feature_cache, "--feature-cache")
    artifact = load_artifact(asked.artifact, args.weights_folder)
    manifest = artifact.manifest
    asked.check_manifest(manifest)
    source = read_source(course.data, manifest, asked.options)
    if course.find_lr:
        trainer = RecoverableTrainer(artifact, asked.running, keep, {}).trainer
        stream = course.stream(source, manifest)
        return find_rate(trainer, stream, asked.running.steps_per_call, is_json=asked.json)
    trained = Trained(course.data, source)
    held = evaluation_of(asked.eval_data, manifest, asked.options, trained, ema=watching.ema)
    validation = watching.measured(manifest, asked.options, trained)
    stream = course.stream(source, manifest)
    total = course.total(stream)
    schedule = course.rates(total // manifest.accumulate)
    identity = course.identity(source, schedule) if keep.checkpoint else {}
    keep = _begun(keep, manifest, identity, total)
    run = _started(artifact, asked.running, keep, identity, total)
    done = Done()
    best = watching.best_checkpoint()
    planned = RunCourse(
        *(stream, total, None, schedule, asked.running.steps_per_call),
        *(validation, watching.validate_every),
    )

    def work(trainer: "Trainer") -> "Finished | StopRequest":
        """The whole run from the trainer's step on; the signal that ended it before."""
        done.emulated |= bool(trainer.session.info()["emulated"])
        callbacks = [*watching.callbacks(), *([best] if best else []), *keep.callbacks()]
        going = Run(trainer, planned, start=0)
        if not done.steps:
            course.batch_by_length(stream, trainer)
            _say_idle(going, callbacks, course)
            rehearse_export(trainer, asked.export)
        if said := keep_features(going, kept_bytes):
            say(f"note: {said}")
        ended = take_steps(going, callbacks, done)
        _say_left_out(going)
        if ended.number:
            return ended
        is_restored = _say_stopped(going, best)
        exported = export_model(trainer, asked.export, keep.checkpoint)
        return Finished(
            going.step,
            exported,
            held(trainer),
            going.history,
            best.best(going) if best else None,
            is_restored,
        )

    found = run.through(work)
    if isinstance(found, StopRequest):
        say_ended(found, run.trainer.steps, total, keep.checkpoint)
        return found.code
    print_summary(found, done, manifest.batch, asked.files, is_json=asked.json)
    return ExitCode.OK


def _say_idle(run: "Run", callbacks: "Sequence[Callback]", course: Course) -> None:
    """Says which options change nothing of a run."""
    from odtc.runtime_rpc.loop.idle import OF_RUN, Begun, left_of_updates

    begun = Begun(run, callbacks, course.seed, course.feature_cache)
    for said in filter(None, (*said_of_idle(OF_RUN, begun, flag_of), left_of_updates(begun))):
        say(f"note: {said}")


def _begun(
    keep: Checkpoints, manifest: "Manifest", identity: dict[str, str], total: int
) -> Checkpoints:
    """The checkpoints of the run, which goes on from one only where there is one.

    Raises:
        ArtifactError: what goes on would be another run.
        UsageError: the run would replace a longer one.
    """
    path = keep.checkpoint
    if path is None:
        return keep
    if not path.exists():
        if keep.resume:
            say(f"note: there is no checkpoint {path} yet: the run begins anew")
        return replace(keep, resume=None)
    known, name = Known.of(path), keep.adapter
    if name and known.steps and name not in known.steps:
        begins = ": it begins anew" if keep.resume else ""
        say(f"note: {path} has no adapter {name} yet{begins}; the others stay in it")
        return replace(keep, resume=None)
    if keep.resume:
        check_same_run(path, manifest, identity, name, anyway=keep.resume == ANYWAY)
        if name and keep.load_adapters:
            say("note: --load-adapters changes nothing: the run goes on with the checkpoint's")
        return keep
    if name is None:
        known.check_kept(path)
    check_replaced(path, total, name if known.is_beside_others(name) else None)
    return keep


def _started(
    artifact: "Artifact",
    running: Running,
    keep: Checkpoints,
    identity: dict[str, str],
    total: int,
) -> RecoverableTrainer:
    """The trainer, at the step that the run goes on from.

    Raises:
        OdtcError: there is no such device.
    """
    run = RecoverableTrainer(artifact, running, keep, identity)
    if keep.resume:
        step = run.trainer.steps
        of = f", adapter {keep.adapter}" if keep.adapter else ""
        say(f"resumed from {keep.checkpoint}{of} at step {step} of {total}")
        if not keep.adapter:
            say_which(run.trainer)
        if step >= total:
            say(
                "note: the run is finished, and no step is left to do: give more --epochs or "
                "--steps to go on"
            )
    return run


def _say_stopped(run: "Run", best: "BestCheckpoint | None") -> bool:
    """Says what ended a run before its last step, and whose weights it ends with.

    Returns:
        Whether they are those of the best row.
    """
    from odtc.runtime_rpc.loop.monitor import measured_at

    if run.history.stopped:
        say(f"note: ended after step {run.step}: {run.history.stopped}")
    row = best and best.best(run)
    if best and (missing := best.missing(run)):
        say(f"note: {missing}")
    if not best or not row:
        return False
    what = f"step {row['step']}, {best.column} {row[best.column]:.4g}"
    if best.restored(run):
        say(f"the weights are those of the best {measured_at(run)}: {what}")
        return True
    if row["step"] != run.step:
        say(f"note: the weights are those of step {run.step}; the best are in {best.path}: {what}")
    return False


def _say_left_out(run: "Run") -> None:
    """Says which steps have changed no weight, or had no label."""
    from odtc.runtime_rpc.loop.run import end_texts

    for said in filter(None, end_texts(run)):
        say(f"note: {said}")
