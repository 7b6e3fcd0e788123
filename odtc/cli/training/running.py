"""Where and how a run takes its steps: on which device, with which memory, threads and files."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import CORES_HELP, add_steps_per_call
from odtc.cli.switches import Switch
from odtc.core.options.cores import parse_cores
from odtc.core.options.idle import flag_of, said_of_idle

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.runtime_rpc.sessions.session import Session
    from odtc.runtime_rpc.trainer import Trainer


@dataclass(frozen=True)
class Running:
    """Where and how a run takes its steps.

    Attributes:
        device: URL of it; None for this machine.
        memory_budget: bytes for the tensors of a step, as text.
        follow_memory: whether each step runs by the plan that the machine's memory allows.
        threads: of a step; None for as many as it was compiled for.
        storage: folder of the device, for files in place of memory.
        offload_state: whether the optimizer's state is in such files.
        cores: that threads are bound to, as text.
        steps_per_call: that the device takes at once.
        elsewhere: URLs of devices to go on with, one after the other, where one does not come back.
    """

    device: str | None
    memory_budget: str | None
    follow_memory: bool
    threads: int | None
    storage: str | None
    offload_state: bool
    cores: str | None
    steps_per_call: int
    elsewhere: Sequence[str] | None = None

    def start(self, artifact: "Artifact", session: "Session | None" = None) -> "Trainer":
        """A trainer there.

        Args:
            artifact: with the step.
            session: with the device, if there is one already.

        Raises:
            OdtcError: the device does not answer, or the step does not fit it.
        """
        trainer = artifact.trainer(
            *(session or self.device, self.threads, self.cores, self.storage),
            offload_state=self.offload_state,
        )
        if self.memory_budget:
            trainer.set_budget(self.memory_budget)
        if self.follow_memory:
            trainer.follow_memory()
        return trainer

    def say_idle(self, trainer: "Trainer") -> None:
        """Notes on options of memory that change nothing of a step."""
        # Imported here: it brings numpy.
        from odtc.runtime_rpc.memory.allocation import Placement
        from odtc.runtime_rpc.memory.idle import OF_MEMORY, AtWork

        placement = Placement(self.storage, self.offload_state)
        facts = AtWork(
            trainer.manifest, placement, self.follow_memory, has_budget=bool(self.memory_budget)
        )
        for said in said_of_idle(OF_MEMORY, facts, flag_of):
            say(f"note: {said}")


def say_idle_cores(trainer: "Trainer") -> None:
    """A note on cores that a step leaves idle, where nobody chose how many it takes."""
    # Imported here: it brings what knows of targets.
    from odtc.runtime_rpc.fit import idle_cores

    if idle := idle_cores(trainer.session, trainer.target):
        say(f"note: {idle}")


def add_running_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Running`."""
    add = parser.add_argument
    add(
        "--device",
        metavar="URL",
        help="device to use: rpc://HOST:PORT/KEY of a tracker, or adb://SERIAL (default: this "
        "machine)",
    )
    add(
        "--elsewhere",
        nargs="+",
        metavar="URL",
        help="devices on which to continue from the last checkpoint if the device is lost and "
        "not back within 120 s; options for cores or files that the new one cannot meet are "
        "dropped",
    )
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory-budget",
        metavar="BYTES",
        help="use the fastest of the artifact's plans that fits this budget (see `odtc inspect`)",
    )
    memory.add_argument(
        "--follow-memory",
        action=Switch,
        help="before each step, choose the fastest plan that fits the machine's available memory",
    )
    add("--threads", type=int, metavar="N", help="number of worker threads for a step on a CPU")
    add(
        "--storage",
        metavar="FOLDER",
        help="folder on the device for files that replace memory, for steps compiled with "
        "--offload and for --offload-state",
    )
    add(
        "--offload-state",
        action=Switch,
        help="keep the optimizer state in files, which each update reads and writes once, so "
        "that the system can drop their pages in between",
    )
    add("--cores", type=parse_cores, metavar="C", help=CORES_HELP)
    add_steps_per_call(parser)
