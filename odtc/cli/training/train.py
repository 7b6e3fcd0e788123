"""`odtc train`: runs a training step over a data set, here or on a device."""

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from odtc.cli.console import emit, emit_json, progress_of, readable_bytes, say
from odtc.cli.interrupts import StopRequest, interruption
from odtc.cli.options import CORES_HELP, add_json_option, add_steps_per_call, at_least, output_file
from odtc.cli.training.reconnect import RecoverableTrainer
from odtc.cli.training.resuming import add_resume_options, check_same_run, run_identity
from odtc.cli.training.trained_model import (
    add_export_options,
    check_export_options,
    export_model,
    rehearse_export,
)
from odtc.core.disk.files import check_writable
from odtc.core.errors import ExitCode, UsageError
from odtc.core.options.cores import parse_cores

if TYPE_CHECKING:
    from odtc.cli.training.samples import Batch, Samples
    from odtc.core.artifact.manifest import Manifest
    from odtc.core.specs import Argument, Classes
    from odtc.runtime_rpc.trainer import Trainer
    from odtc.schedules import Schedule

EMULATED = "emulated, not a measurement"
# The step number is an int32.
_MOST = 2**31 - 1


@dataclass
class Done:
    """What a run has done so far.

    Attributes:
        emulated: its device is emulated, and its times are not results.
        steps: number of steps that it took itself.
        seconds: wall time of all its steps.
        loss: of its last step.
    """

    emulated: bool
    steps: int = 0
    seconds: float = 0.0
    loss: float | None = None

    @property
    def step_ms(self) -> float:
        """Mean time of a step in milliseconds."""
        return 1000 * self.seconds / self.steps

    def time_text(self) -> str:
        """The time of a step, for people."""
        return EMULATED if self.emulated else f"{self.step_ms:.2f} ms a step"


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
    add("--data", type=Path, required=True, metavar="NPZ", help="inputs by name or x; labels as y")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--epochs",
        type=at_least(1, _MOST),
        metavar="N",
        help="passes over the data (default: 1)",
    )
    length.add_argument("--steps", type=at_least(1, _MOST), metavar="N", help="steps in all")
    add("--lr", type=float, required=True, metavar="F", help="the learning rate")
    add(
        "--schedule",
        default="constant",
        metavar="S",
        help="the learning rate's course: constant, step{every=N,gamma=F}, cosine or one-cycle; "
        "the last two over the whole run, or over {steps=N} (default: constant)",
    )
    add("--warmup", type=at_least(0), default=0, metavar="N", help="updates of a linear warm-up")
    add("--ema", action="store_true", help="measure and export the moving averages of the weights")
    add(
        "--seed",
        type=at_least(0),
        default=0,
        metavar="S",
        help="of the samples' order (default: 0)",
    )
    add("--checkpoint", type=output_file, metavar="FILE", help="write a checkpoint at the end")
    add(
        "--checkpoint-every",
        type=at_least(1),
        metavar="STEPS",
        help="and every so many steps, after the call that takes them",
    )
    add_resume_options(parser)
    add("--eval-data", type=Path, metavar="NPZ", help="measure the accuracy on this at the end")
    add_export_options(parser)
    add("--export-adapters", type=output_file, metavar="FILE", help="write the adapters alone")
    add(
        "--device",
        metavar="URL",
        help="rpc://HOST:PORT/KEY of a tracker, or adb://SERIAL (default: this machine)",
    )
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory-budget",
        metavar="BYTES",
        help="of the artifact's plans, take the fastest that fits (see `odtc inspect`)",
    )
    memory.add_argument(
        "--follow-memory",
        action="store_true",
        help="before each step, take the fastest plan that the machine's memory allows",
    )
    add("--threads", type=int, metavar="N", help="worker threads")
    add(
        "--storage",
        metavar="FOLDER",
        help="of the device, for files in place of memory, of steps compiled with --offload and of "
        "--offload-state",
    )
    parser.add_argument(
        "--offload-state",
        action="store_true",
        help="keep the optimizer's state in files: each update reads and writes them once, and the "
        "system may drop their pages in between",
    )
    add("--cores", type=parse_cores, metavar="C", help=CORES_HELP)
    add_steps_per_call(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, and prints one line or object about it."""
    _check_options(args)
    # Imported here: samples bring numpy.
    from odtc.artifact import load
    from odtc.cli.training.samples import batches, read_samples, steps_per_epoch

    artifact = load(args.artifact)
    manifest = artifact.manifest
    _check_manifest(args, manifest)
    held_out = _held_out(args, manifest)
    samples = read_samples(args.data, manifest)
    per_epoch = steps_per_epoch(samples, manifest.batch, args.data)
    total = args.steps or (args.epochs or 1) * per_epoch
    left = len(samples) - per_epoch * manifest.batch
    if left:
        say(f"note: each epoch leaves {left} of {len(samples)} samples out: they fill no batch")
    schedule = _schedule(args, total // manifest.accumulate)
    existed = bool(args.checkpoint and args.checkpoint.exists())
    identity = run_identity(samples, args.seed, schedule) if args.checkpoint else {}
    if args.resume:
        check_same_run(args, manifest, identity)
    run = RecoverableTrainer(artifact, args, identity)
    if args.resume:
        say(f"resumed from {args.checkpoint} at step {run.trainer.steps} of {total}")
    elif existed:
        say(f"note: {args.checkpoint} will be replaced; --resume would take it up")
    done = Done(emulated=bool(run.trainer.session.info()["emulated"]))

    def work(trainer: "Trainer") -> dict[str, Any] | StopRequest:
        """The whole run from the trainer's step on; the signal that ended it before."""
        if not done.steps:
            rehearse_export(trainer, args)
        feed = batches(samples, manifest.batch, args.seed, trainer.steps)
        asked = train(trainer, feed, total, schedule, args, done)
        _say_skipped(trainer)
        if asked.number:
            return asked
        summary = _summary(trainer.steps, done, manifest.batch, args)
        summary["exported"] = export_model(trainer, args)
        if held_out:
            summary["accuracy"] = accuracy(trainer, *held_out, ema=args.ema)
        return summary

    summary = run.through(work)
    if isinstance(summary, StopRequest):
        _say_ended(summary, run.trainer.steps, total, args.checkpoint)
        return summary.code
    _print(summary, done, is_json=args.json)
    return ExitCode.OK


def train(
    trainer: "Trainer",
    feed: "Iterable[Batch]",
    total: int,
    schedule: "Schedule",
    args: argparse.Namespace,
    done: Done,
) -> StopRequest:
    """Takes the steps up to `total`, or to a signal's end, and saves the checkpoint.

    Returns:
        Whether somebody asked for an end.
    """
    remaining, every = max(total - trainer.steps, 0), args.checkpoint_every
    with interruption(at_once=False) as asked, progress_of(total, trainer.steps) as update:
        losses = trainer.train(islice(feed, remaining), schedule, args.steps_per_call)
        saved = trainer.steps
        for step in range(trainer.steps + 1, trainer.steps + remaining + 1):
            began, plan = time.perf_counter(), trainer.plan
            done.loss = next(losses)
            done.seconds += time.perf_counter() - began
            if trainer.plan != plan:
                say(f"step {trainer.steps}: {_plan_text(trainer)}")
            done.steps += 1
            update(step, f"loss {done.loss:.4f}, {done.time_text()}")
            if step < trainer.steps:
                # The device is further, at the end of a call: what it holds is of that step.
                continue
            if every and step // every > saved // every:
                trainer.save_checkpoint(args.checkpoint)
                saved = step
            if asked.number:
                break
        if args.checkpoint:
            trainer.save_checkpoint(args.checkpoint)
    return asked


def _say_skipped(trainer: "Trainer") -> None:
    if count := trainer.skipped:
        what = f"{count} of {trainer.updates} updates were left out"
        say(f"note: {what}: not all of their gradients were finite")


def _plan_text(trainer: "Trainer") -> str:
    plan = trainer.plan
    return f"went on with an arena of {readable_bytes(plan.arena_bytes)}, for the memory left"


def _check_manifest(args: argparse.Namespace, manifest: "Manifest") -> None:
    """Checks that the artifact has what is to be exported.

    Raises:
        UsageError: it keeps no averages, or trains no adapters.
    """
    if args.ema and manifest.update["ema"] is None:
        raise UsageError(
            "the artifact keeps no moving averages", hint="compile it with --ema, such as 0.999"
        )
    if args.export_adapters and not manifest.adapters:
        raise UsageError(
            "the artifact trains no adapters",
            where=str(args.artifact),
            hint="compile the model with --lora, or leave --export-adapters out",
        )


def class_label(manifest: "Manifest") -> "Argument":
    """The label that accuracy is measured with: the first one of class numbers.

    Raises:
        UsageError: there is none.
    """
    label = next((item for item in manifest.labels if item.classes), None)
    if label is None:
        raise UsageError(
            f"--eval-data measures accuracy; the loss {manifest.loss} has no labels that are class "
            "numbers",
            hint="leave it out, or evaluate in Python",
        )
    return label


def _held_out(args: argparse.Namespace, manifest: "Manifest") -> "tuple[Samples, Argument] | None":
    """What accuracy is measured on, and the label that it is measured with.

    Raises:
        UsageError: there is no such label, or the output is evaluated for whole batches only.
        DataError: the samples cannot be read.
    """
    from odtc.cli.training.samples import read_samples

    if not args.eval_data:
        return None
    label, found = class_label(manifest), read_samples(args.eval_data, manifest)
    named = [each for each in manifest.evaluations if each.output.name == label.spec.name]
    output = (*named, *manifest.evaluations)[0]
    if output.place is None and len(found) != manifest.micro_batch:
        raise UsageError(
            f"nothing shows where the samples lie in {output.output}: it is evaluated for whole "
            f"batches of {manifest.micro_batch}, and --eval-data holds {len(found)} samples",
            hint=f"leave it out, or compile with --batch-axis {output.output.name}=AXIS",
        )
    return found, label


def accuracy(
    trainer: "Trainer", samples: "Samples", label: "Argument", *, ema: bool = False
) -> float:
    """The share of labels, but for ignored ones, whose class has the largest score."""
    labels, classes = samples.labels[label.spec.name], cast("Classes", label.classes)
    several = len(samples.labels) > 1
    scores = trainer.evaluate(samples.inputs, label.spec.name if several else None, ema=ema)
    right = scores.argmax(axis=classes.axis).reshape(labels.shape) == labels
    return float(right[labels != classes.ignored].mean())


def _schedule(args: argparse.Namespace, updates: int) -> "Schedule":
    """The learning rate's course over a run of so many updates."""
    from odtc.schedules import Warmup, parse_schedule

    if args.warmup >= updates:
        say(f"note: all {updates} updates are of the warm-up, which takes {args.warmup}")
    schedule = parse_schedule(args.schedule, args.lr, max(updates - args.warmup, 1))
    return Warmup(schedule, args.warmup) if args.warmup else schedule


def _check_options(args: argparse.Namespace) -> None:
    """Finds what is wrong with the options before any work is done.

    Raises:
        UsageError: an option needs `--checkpoint` or `--export`, or files are the same.
        OutputError: a file that is to be written cannot be.
    """
    for option in ("resume", "checkpoint_every"):
        if getattr(args, option) and not args.checkpoint:
            name = option.replace("_", "-")
            raise UsageError(f"--{name} needs a checkpoint", hint="pass --checkpoint FILE")
    check_export_options(args)
    read = {os.path.realpath(p): p for p in (args.artifact, args.data, args.eval_data) if p}
    written: dict[str, Path] = {}
    for path in filter(None, (args.checkpoint, args.export, args.export_adapters)):
        place = os.path.realpath(path)
        if place in read or place in written:
            kind = "what the run reads" if place in read else "another of its results"
            raise UsageError(
                f"a file that is to be written would replace {kind}",
                where=str(path),
                hint="give it a name of its own",
            )
        written[place] = path
        check_writable(path)


def _say_ended(asked: StopRequest, step: int, total: int, checkpoint: Path | None) -> None:
    say(f"{asked.word} after step {step} of {total}")
    if checkpoint:
        say(f"saved {checkpoint}; run the same command with --resume to go on")
    else:
        say("nothing was saved; pass --checkpoint FILE to be able to go on")


def _summary(steps: int, done: Done, batch: int, args: argparse.Namespace) -> dict[str, Any]:
    """The run as data. Times of an emulated device are no results: they are left out."""
    summary: dict[str, Any] = {"steps": steps, "steps_taken": done.steps, "loss": done.loss}
    if done.steps and not done.emulated:
        summary["step_ms"] = done.step_ms
        summary["samples_per_second"] = 1000 * batch / done.step_ms
    paths = {
        "adapters": args.export_adapters,
        "checkpoint": args.checkpoint,
    }
    return {
        **summary,
        "emulated": done.emulated,
        **{name: str(path) for name, path in paths.items() if path},
    }


# Key of the summary to how the line for people has it.
_PHRASES = {
    "steps": "{} steps",
    "loss": "loss {:.4f}",
    "time": "{}",
    "samples_per_second": "{:.0f} samples/s",
    "accuracy": "accuracy {:.2%}",
    "adapters": "adapters in {}",
}


def _print(summary: dict[str, Any], done: Done, *, is_json: bool) -> None:
    exported = summary.pop("exported")
    if is_json:
        data = {"exported": exported.path, "export": exported.as_data()} if exported else {}
        emit_json(summary | data)
    else:
        emit(_line(summary, done), *([str(exported)] if exported else []))


def _line(summary: dict[str, Any], done: Done) -> str:
    shown = summary | ({"time": done.time_text()} if done.steps else {})
    return ", ".join(
        phrase.format(shown[key]) for key, phrase in _PHRASES.items() if shown.get(key) is not None
    )
