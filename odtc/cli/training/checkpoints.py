"""What a run begins with, and the checkpoints that it writes."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from odtc.cli.options import at_least, output_file
from odtc.cli.training.resuming import add_resume_options
from odtc.core.errors import UsageError


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run.

    Attributes:
        checkpoint: the file; None for none.
        checkpoint_every: steps from one to the next; None for one at the end.
        resume: whether the run goes on from it: `SAME` or `ANYWAY`; None if it does not.
        load_adapters: a file or a folder of adapters that a run begins with, unless it goes on.
    """

    checkpoint: Path | None
    checkpoint_every: int | None
    resume: str | None
    load_adapters: Path | None

    def check(self) -> None:
        """Checks that there is a file to be about.

        Raises:
            UsageError: there is none.
        """
        for name, given in (("resume", self.resume), ("checkpoint-every", self.checkpoint_every)):
            if given and not self.checkpoint:
                raise UsageError(f"--{name} needs a checkpoint", hint="pass --checkpoint FILE")

    def is_due(self, step: int, saved: int) -> bool:
        """Whether one is due after a step, where the last one was of another."""
        every = self.checkpoint_every
        return every is not None and step // every > saved // every


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Checkpoints`."""
    add = parser.add_argument
    add("--checkpoint", type=output_file, metavar="FILE", help="write a checkpoint at the end")
    add(
        "--checkpoint-every",
        type=at_least(1),
        metavar="STEPS",
        help="and every so many steps, after the call that takes them",
    )
    add_resume_options(parser)
    add(
        "--load-adapters",
        type=Path,
        metavar="PATH",
        help="begin with these adapters: a file of --export-adapters, or a folder of PEFT; "
        "--resume goes on from the checkpoint's",
    )
