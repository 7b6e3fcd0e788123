"""Counts one code on several cores."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import ROOT, Counted, alike, count
from benchmarks.arm.figures import Figures, profile_of
from benchmarks.arm.ours import prepared
from benchmarks.arm.places import Places
from benchmarks.step_time.cases import StepCase


@dataclass(frozen=True)
class Code:
    """A step that was compiled, and counted.

    Attributes:
        model: its name.
        batch: samples of a step.
        mcpu: what it was compiled for; several CPUs are joined by plus signs.
        nbytes: of the library.
        figures: of the last step, by the name of the core.
        losses: of all steps, by the name of the core.
    """

    model: str
    batch: int
    mcpu: str
    nbytes: int
    figures: Mapping[str, Figures]
    losses: Mapping[str, Sequence[float]]


def counted_code(case: StepCase, mcpu: str, cores: Sequence[Core], steps: int) -> Code:
    """Compiles a step, and counts it on each core.

    Args:
        case: the model and its batch.
        mcpu: as of `Code`.
        cores: at most four.
        steps: how many are counted.

    Raises:
        BuildError: a compiler or the emulator is missing or failed, or the step did.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        words = prepared(case, mcpu, steps, folder)
        nbytes = (folder / "step.so").stat().st_size
        figures, losses = {}, {}
        for core, found in zip(cores, _runs(words, mcpu, cores, folder), strict=True):
            step = profile_of(found.steps[-1], Places(found.mappings), core)
            figures[core.name] = step.total
            losses[core.name] = [float(line) for line in found.said.split()]
    return Code(case.name, case.batch, mcpu, nbytes, figures, losses)


def _runs(
    words: Sequence[str], mcpu: str, cores: Sequence[Core], folder: Path
) -> Iterator[Counted]:
    """One for each core; where the cores run the same kernels, all in one run."""
    if "+" not in mcpu:
        yield from count(words, alike(cores), folder)
        return
    for core in alike(cores):
        yield from count(words, [core], folder, _system_of(core, folder / core.name))


def _system_of(core: Core, folder: Path) -> Path:
    """The libraries of the guest beside what Linux says of cores: all are the same."""
    for number in os.sched_getaffinity(0):
        known = folder / f"sys/devices/system/cpu/cpu{number}/regs/identification"
        known.mkdir(parents=True)
        (known / "midr_el1").write_text(f"0x{core.midr:016x}\n", encoding="ascii")
    (folder / "lib").symlink_to(ROOT / "lib")
    return folder
