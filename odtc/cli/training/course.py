"""The course of a run: over which samples, for how long, at which learning rates."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import MANY, at_least
from odtc.cli.training.resuming import run_identity

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.data.source import Source, Stream
    from odtc.runtime_rpc.trainer import Trainer
    from odtc.schedules import Schedule

# The step number is an int32.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Course:
    """The course of a run.

    Attributes:
        data: the file of samples.
        epochs: passes over them; None where steps are given, or for one.
        steps: in all, those before a checkpoint too; None where epochs are.
        lr: the learning rate; None where it is to be found.
        find_lr: whether rates are tried, in place of a run.
        schedule: its course, as text.
        warmup: updates of a linear warm-up.
        seed: of the samples' order.
        augment: names of what is done to images.
        feature_cache: bytes of features that may be kept, as text.
    """

    data: Path
    epochs: int | None
    steps: int | None
    lr: float | None
    find_lr: bool
    schedule: str
    warmup: int
    seed: int
    augment: list[str] | None
    feature_cache: str

    def stream(self, source: "Source", manifest: "Manifest") -> "Stream":
        """The batches of the run, with the augmentations.

        Raises:
            DataError: there are fewer samples than a step takes.
            UsageError: an augmentation is unknown, or does not fit the step.
        """
        # Imported here: samples bring numpy.
        from odtc.runtime_rpc.data.augment import augmented
        from odtc.runtime_rpc.data.source import Stream
        from odtc.runtime_rpc.loop.feed import left_text

        source = augmented(source, self.augment or (), manifest)
        stream = Stream(source, manifest.batch, self.seed)
        left = 0 if self.steps or self.find_lr else stream.left_of(self.epochs or 1)
        if left:
            say(f"note: {left_text(stream, left)}")
        return stream

    def batch_by_length(self, stream: "Stream", trainer: "Trainer") -> None:
        """Puts samples of arrays into batches of one length each; only a trainer knows whether."""
        from odtc.runtime_rpc.data.samples import Samples
        from odtc.runtime_rpc.lengths.batching import batched_by_length

        source = stream.source
        if isinstance(source, Samples) and source.lengths is None:
            stream.source = batched_by_length(source, trainer.manifest, trainer.can_fill_rows)
            for note in stream.source.notes[len(source.notes) :]:
                say(f"note: {note}")

    def identity(self, source: "Source", schedule: "Schedule") -> dict[str, str]:
        """What makes a run the one that it is, beside the compiled step."""
        return run_identity(source, self.seed, schedule, self.augment or ())

    def total(self, stream: "Stream") -> int:
        """Steps of the whole run."""
        return self.steps or stream.steps_of(self.epochs or 1)

    def rates(self, updates: int) -> "Schedule":
        """The learning rate's course over a run of so many updates.

        Raises:
            UsageError: the schedule is malformed, or a value is none.
        """
        # Imported here, for a quick `--help`.
        from odtc.schedules import Warmup, parse_schedule

        assert self.lr is not None

        if self.warmup >= updates > 0:
            say(f"note: all {updates} updates are of the warm-up, which takes {self.warmup}")
        length = max(updates - self.warmup, 1)
        schedule = parse_schedule(self.schedule, self.lr, length)
        steps = getattr(schedule, "steps", length)
        if steps < length:
            say(
                f"note: {schedule.name} ends after {steps} of {length} updates; the learning rate "
                f"stays at {schedule(steps):.3g}"
            )
        return Warmup(schedule, self.warmup) if self.warmup else schedule


def add_course_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a `Course`."""
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        required=True,
        metavar="DATA",
        help="training data: inputs by name or as x, labels as y; for a language model also "
        "tokens, or JSON lines of text",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--epochs",
        type=at_least(1, _MOST),
        metavar="N",
        help="passes over the data (default: 1)",
    )
    length.add_argument(
        "--steps", type=at_least(1, _MOST), metavar="N", help="total number of steps"
    )
    rate = parser.add_mutually_exclusive_group(required=True)
    rate.add_argument("--lr", type=float, metavar="F", help="learning rate")
    rate.add_argument(
        "--find-lr",
        action="store_true",
        help="do not train, but try learning rates from small to large, one update each, and "
        "print the losses and the rate at which they fall most steeply",
    )
    add(
        "--schedule",
        default="constant",
        metavar="S",
        help="learning-rate schedule: constant, step{every=N,gamma=F}, cosine or one-cycle; the "
        "last two span the whole run, or {steps=N} (default: constant)",
    )
    add(
        "--warmup",
        type=at_least(0),
        default=0,
        metavar="N",
        help="number of updates of a linear warm-up (default: 0)",
    )
    add(
        "--seed",
        type=at_least(0),
        default=0,
        metavar="S",
        help="seed of the sample order (default: 0)",
    )
    add(
        "--augment",
        **MANY,
        metavar="A",
        help="image augmentations, drawn for each step from the seed: flip, crop{pixels=4}, "
        "jitter{share=0.2} or mixup{alpha=0.2}",
    )
    add(
        "--feature-cache",
        default="1GiB",
        metavar="BYTES",
        help="size of the cache for outputs of frozen layers, which are computed once per sample "
        "if they are the same in each epoch; 0 for no cache (default: 1GiB)",
    )
