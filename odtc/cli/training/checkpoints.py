"""What a run begins with, and the checkpoints that it writes."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import at_least, output_file
from odtc.cli.training.resuming import add_resume_options
from odtc.core.errors import UsageError
from odtc.runtime_rpc.state.adapter_names import check_adapter_name

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.callback import Callback


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run.

    Attributes:
        checkpoint: the file; None for none.
        checkpoint_every: steps from one to the next; None for one at the end.
        keep: how many are kept beside it.
        resume: whether the run goes on from it: `SAME` or `ANYWAY`; None if it does not.
        load_adapters: a file or a folder of adapters that a run begins with, unless it goes on.
        adapter: name of the adapter of the checkpoint that is trained; None for the one at work.
    """

    checkpoint: Path | None
    checkpoint_every: int | None
    keep: int
    resume: str | None
    load_adapters: Path | None
    adapter: str | None = None

    def check(self) -> None:
        """Checks that there is a file to be about.

        Raises:
            UsageError: there is none, or the adapter's name is none.
        """
        options = {
            "resume": self.resume,
            "checkpoint-every": self.checkpoint_every,
            "keep": self.keep,
            "adapter": self.adapter,
        }
        for name, given in options.items():
            if given and not self.checkpoint:
                raise UsageError(f"--{name} needs a checkpoint", hint="pass --checkpoint FILE")
        # That of a variable of a shell may be empty, and would be as if there were no option.
        if self.adapter is not None:
            check_adapter_name(self.adapter)

    def say_whether_at_the_end(self) -> None:
        """Who names one for a run on a device counts on it where that is lost."""
        if self.checkpoint and not self.checkpoint_every:
            begins = "where it was resumed" if self.resume else "at step 0"
            say(
                f"note: {self.checkpoint} is written at the end; a run whose device is lost before "
                f"begins again {begins}, unless --checkpoint-every STEPS writes it in between"
            )

    def callbacks(self) -> "list[Callback]":
        """What writes them."""
        from odtc.runtime_rpc.loop.keeping import Checkpoint

        if self.checkpoint is None:
            return []
        return [Checkpoint(self.checkpoint, self.checkpoint_every, self.keep)]


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Checkpoints`."""
    add = parser.add_argument
    add(
        "--checkpoint",
        type=output_file,
        metavar="FILE",
        help="write a checkpoint to FILE at the end",
    )
    add(
        "--checkpoint-every",
        type=at_least(1),
        metavar="STEPS",
        help="also write it every STEPS steps, after the call that takes them",
    )
    add(
        "--keep",
        type=at_least(0),
        default=0,
        metavar="N",
        help="also keep the last N checkpoints, each as FILE-stepS, and remove older ones of "
        "this run (default: 0)",
    )
    add_resume_options(parser)
    add(
        "--load-adapters",
        type=Path,
        metavar="PATH",
        help="start from these adapters: a file from --export-adapters, a PEFT folder, or the "
        "weights in a file from save_adapter; --resume continues with those of the checkpoint",
    )
    add(
        "--adapter",
        metavar="NAME",
        help="train this adapter of the checkpoint, or add a new one; the others stay as they are",
    )
