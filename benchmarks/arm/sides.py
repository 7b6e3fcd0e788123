"""What is counted on each side, by its name: odtc first, which the others are compared with."""

import tempfile
from collections.abc import Callable, Sequence
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
        losses: of all its steps, the first of which is not counted.
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


def _odtc(case: StepCase, cores: Sequence[Core], steps: int, folder: Path) -> list[Counted]:
    (core,) = cores
    return [counted_odtc(case, core, steps, folder)]


def _pytorch(
    mode: str, case: StepCase, cores: Sequence[Core], steps: int, folder: Path
) -> list[Counted]:
    from benchmarks.arm.peers import counted_pytorch

    return counted_pytorch(case, cores, steps, folder, _root(), mode)


def _mnn(case: StepCase, cores: Sequence[Core], steps: int, folder: Path) -> list[Counted]:
    from benchmarks.arm.peers import counted_mnn

    return counted_mnn(case, cores, steps, folder, _root())


SIDES: dict[str, Callable[[StepCase, Sequence[Core], int, Path], list[Counted]]] = {
    OURS: _odtc,
    "PyTorch": partial(_pytorch, "onednn"),
    "PyTorch without oneDNN": partial(_pytorch, "native"),
    "MNN": _mnn,
}


def sides_of(name: str, case: StepCase, cores: Sequence[Core], steps: int) -> list[Side]:
    """Counts steps of a side for each core; what cannot be counted says why.

    odtc is compiled for each core. A peer chooses among its kernels by the CPU that is emulated, so
    that one run counts for all cores that are emulated as the same.
    """
    found: dict[str, Side] = {}
    for key in dict.fromkeys(_run_of(name, core) for core in cores):
        together = [core for core in cores if _run_of(name, core) == key]
        names = (core.name for core in together)
        found |= zip(names, _sides(name, case, together, steps), strict=True)
    return [found[core.name] for core in cores]


def _run_of(name: str, core: Core) -> str:
    return core.name if name == OURS else core.emulated


def _sides(name: str, case: StepCase, cores: Sequence[Core], steps: int) -> list[Side]:
    """Of cores that one run counts for."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = SIDES[name](case, cores, steps, Path(folder))
        except (OdtcError, ImportError, ValueError, RuntimeError) as error:
            return [Side(name, skipped=str(error).strip().splitlines()[-1]) for _ in cores]
        nodes = nodes_of_kernels(Path(folder)) if name == OURS else {}
        return [_side(name, one, core, nodes) for one, core in zip(run, cores, strict=True)]


def _side(name: str, counted: Counted, core: Core, nodes: dict[str, str]) -> Side:
    places = Places(counted.mappings)
    losses = [float(line) for line in counted.said.split()]
    return Side(name, losses, [profile_of(step, places, core) for step in counted.steps], nodes)
