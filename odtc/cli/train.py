"""`odtc train`: runs a training step over a data set, here or on a device."""

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, progress_of, say
from odtc.cli.options import add_json_option, at_least
from odtc.core.errors import ExitCode, UsageError
from odtc.core.files import check_writable

if TYPE_CHECKING:
    from odtc.cli.samples import Samples
    from odtc.runtime_rpc.trainer import Trainer

EMULATED = "emulated, not a measurement"


@dataclass
class Run:
    """What a training run has done so far.

    Attributes:
        emulated: its device is emulated: its times are not results.
        seconds: wall time of each step.
        loss: of the last step; None before the first.
    """

    emulated: bool
    seconds: list[float] = field(default_factory=list)
    loss: float | None = None

    @property
    def step_ms(self) -> float:
        """Mean time of a step in milliseconds."""
        return 1000 * sum(self.seconds) / len(self.seconds)

    def time_text(self) -> str:
        """The time of a step, for people."""
        return EMULATED if self.emulated else f"{self.step_ms:.2f} ms a step"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "train",
        help="train with an artifact",
        description="Runs a training step over a data set, on this machine or on a device.",
        epilog="Ctrl-C ends the run after the step that it is in, and writes the checkpoint.",
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ART", help="the artifact")
    add("--data", type=Path, required=True, metavar="NPZ", help="inputs by name or x; labels as y")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--epochs", type=at_least(1), default=1, metavar="N", help="passes over the data (default: 1)"
    )
    length.add_argument("--steps", type=at_least(1), metavar="N", help="steps in all")
    add("--lr", type=float, required=True, metavar="F", help="the learning rate")
    add("--seed", type=at_least(0), default=0, metavar="S", help="of the samples' order (default: 0)")
    add("--checkpoint", type=Path, metavar="FILE", help="write a checkpoint at the end")
    add("--checkpoint-every", type=at_least(1), metavar="STEPS", help="and every so many steps")
    add("--resume", action="store_true", help="take the run up from the checkpoint")
    add("--eval-data", type=Path, metavar="NPZ", help="measure the accuracy on this at the end")
    add("--export", type=Path, metavar="ONNX", help="write the trained model")
    add("--device", metavar="URL", help="rpc://HOST:PORT/KEY of a tracker (default: this machine)")
    add("--threads", type=int, metavar="N", help="worker threads")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, and prints one line or object about it."""
    _check_options(args)
    # Imported here: samples bring numpy.
    from odtc.artifact import load
    from odtc.cli.samples import read_samples, steps_per_epoch

    artifact = load(args.artifact)
    batch = artifact.manifest.batch
    samples = read_samples(args.data, artifact.manifest)
    held_out = read_samples(args.eval_data, artifact.manifest) if args.eval_data else None
    total = args.steps or args.epochs * steps_per_epoch(samples, batch, args.data)
    if len(samples) % batch:
        left = len(samples) % batch
        say(f"note: {left} of {len(samples)} samples are left out of each epoch: they fill no batch")
    trainer = artifact.trainer(args.device, args.threads)
    if args.resume:
        trainer.load_checkpoint(args.checkpoint)
        say(f"resumed from {args.checkpoint} at step {trainer.steps} of {total}")
    done = Run(emulated=bool(trainer.session.info()["emulated"]))
    with interruption() as interrupted:
        train(trainer, samples, total, args, done, interrupted)
    if args.checkpoint:
        trainer.save_checkpoint(args.checkpoint)
    if trainer.steps < total:
        _say_interrupted(trainer, total, args)
        return ExitCode.INTERRUPTED
    summary = _summary(trainer, done, batch)
    summary |= {"accuracy": accuracy(trainer, held_out)} if held_out else {}
    if args.export:
        trainer.export_onnx(args.export)
    summary |= {
        name: str(path)
        for name, path in (("exported", args.export), ("checkpoint", args.checkpoint))
        if path
    }
    if args.json:
        emit_json(summary)
    else:
        emit(_line(summary, done))
    return ExitCode.OK


def train(
    trainer: "Trainer",
    samples: "Samples",
    total: int,
    args: argparse.Namespace,
    done: Run,
    interrupted: Event,
) -> None:
    """Takes the steps up to `total`, unless it is interrupted, and notes them in `done`."""
    from odtc.cli.samples import batches

    steps = batches(samples, len(samples) and trainer.batch, args.seed, trainer.steps)
    with progress_of(total, trainer.steps) as update:
        for x, y in islice(steps, max(total - trainer.steps, 0)):
            began = time.perf_counter()
            done.loss = trainer.step(x, y, args.lr)
            done.seconds.append(time.perf_counter() - began)
            update(trainer.steps, f"loss {done.loss:.4f}, {done.time_text()}")
            if args.checkpoint_every and trainer.steps % args.checkpoint_every == 0:
                trainer.save_checkpoint(args.checkpoint)
            if interrupted.is_set():
                break


@contextmanager
def interruption() -> Iterator[Event]:
    """Yields an event that the first Ctrl-C sets; the second one interrupts as ever."""
    event = Event()

    def note(*_: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def accuracy(trainer: "Trainer", samples: "Samples") -> float:
    """The share of samples whose largest logit is that of their label."""
    logits = trainer.evaluate(dict(samples.inputs)).reshape(len(samples), -1)
    return float((logits.argmax(axis=1) == samples.labels).mean())
