"""Libraries of kernels in C, as they are measured: sound ones, and such that crash and hang."""

import platform
import subprocess
from pathlib import Path

from odtc.autoschedule.tuning.build import KernelLibrary
from odtc.backends.program.lines import Operand, Region
from odtc.runtime_rpc.native.build import FOLDER as RUNTIME
from odtc.runtime_rpc.native.device.build import compiler_for

COUNT = 1000
_SOURCE = Path(__file__).with_name("kernels.c")
# Instead of what `kernel` does. One that hangs leaves the cores to other tests.
CRASHES, HANGS, WRONG = (
    "(*(volatile int *)8)",
    "({ for (volatile int on = 1; on;) usleep(1000); 2; })",
    "3",
)


def library_of(folder: Path, factor: str = "2", machine: str | None = None) -> Path:
    """A library whose `kernel` multiplies by a factor, in C; for this machine, or another."""
    path = folder / f"kernels-{len(list(folder.glob('*.so')))}.so"
    command = [*compiler_for(machine or platform.machine()), "-shared", "-fPIC", "-O1"]
    command += [f"-I{RUNTIME}", f"-DFACTOR={factor}", str(_SOURCE), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


def candidate(folder: Path, factor: str = "2", machine: str | None = None) -> KernelLibrary:
    """The same as something to measure: from one tensor of `COUNT` float32 to another."""
    operands = (
        Operand(region, 0, 0, "float32", (COUNT,)) for region in (Region.ARGUMENT, Region.RESULT)
    )
    return KernelLibrary(library_of(folder, factor, machine), tuple(operands))
