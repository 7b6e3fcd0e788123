"""What is counted on each side, by its name: odtc first, which the others are compared with."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import Counted
from benchmarks.arm.figures import Profile, profile_of
from benchmarks.arm.ours import counted_odtc, nodes_of_kernels
from benchmarks.arm.places import Places
from benchmarks.arm.root import build_root
from benchmarks.step_time.cases import StepCase
from odtc.core.errors import OdtcError

OURS = "odtc"


@dataclass
class Side:
    """One side on one model and core.

    Attributes:
        name: of the side.
        losses: of all its steps, the first two of which are not counted.
        steps: that were counted.
        nodes: of odtc, what each kernel computes, by its name.
        skipped: why it was not counted; empty where it was.
    """

    name: str
    losses: list[float] = field(default_factory=list)
    steps: list[Profile] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    skipped: str = ""


@cache
def _root() -> Path:
    return build_root(partial(print, flush=True))


def _pytorch(mode: str, case: StepCase, core: Core, steps: int, folder: Path) -> Counted:
    from benchmarks.arm.peers import counted_pytorch

    return counted_pytorch(case, core, steps, folder, _root(), mode)


def _mnn(case: StepCase, core: Core, steps: int, folder: Path) -> Counted:
    from benchmarks.arm.peers import counted_mnn

    return counted_mnn(case, core, steps, folder, _root())


SIDES: dict[str, Callable[[StepCase, Core, int, Path], Counted]] = {
    OURS: counted_odtc,
    "PyTorch": partial(_pytorch, "onednn"),
    "PyTorch without oneDNN": partial(_pytorch, "native"),
    "MNN": _mnn,
}


def side_of(name: str, case: StepCase, core: Core, steps: int) -> Side:
    """Counts steps of a side; what cannot be counted says why."""
    side = Side(name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            counted = SIDES[name](case, core, steps, Path(folder))
        except (OdtcError, ImportError, ValueError, RuntimeError) as error:
            side.skipped = str(error).strip().splitlines()[-1]
            return side
        places = Places(counted.mappings)
        side.losses = [float(line) for line in counted.said.split()]
        side.steps = [profile_of(blocks, places, core) for blocks in counted.steps]
        if name == OURS:
            side.nodes = nodes_of_kernels(Path(folder))
    return side
