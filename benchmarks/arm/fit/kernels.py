"""Single kernels, counted in the emulator: many in one run."""

import math
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tvm import tirx

from benchmarks.arm.blocks import Block
from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import alike, count
from benchmarks.arm.figures import Figures, totals_of
from benchmarks.arm.ours import COMPILER
from odtc.autoschedule.tuning.build import KERNEL, MAIN, calling, kernel_of, kernel_text
from odtc.backends.lowering import build_kernels
from odtc.backends.objects.library import export_library
from odtc.backends.program.lines import Operand, Region
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.core.process.side_by_side import cores as all_cores
from odtc.runtime_rpc.native.build import FOLDER

_GUEST = Path(__file__).parents[1] / "guests" / "kernels.c"
# Codes of DLPack, by the kind of numpy's dtypes.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
# Kernels of one run: an emulator keeps all that it has translated.
_TOGETHER = 100


def counted(
    kernels: Sequence[tirx.PrimFunc], target: str, cores: Sequence[Core], folder: Path
) -> list[tuple[Figures, ...]]:
    """What each kernel does on each core, with nothing near the core as it begins.

    Args:
        kernels: with their loops; the last argument of each is its result.
        target: that they are compiled for.
        cores: at most four.
        folder: an empty one.

    Raises:
        BuildError: the emulator is not installed, or a kernel failed.
    """
    program = folder / "kernels"
    words = [COMPILER, "-std=c11", "-O2", f"-I{FOLDER}", str(_GUEST), "-o", str(program), "-ldl"]
    subprocess.run(words, check=True)
    orders = [
        (kernel_text(kernel), target, folder / f"{number}.so")
        for number, kernel in enumerate(kernels)
    ]
    with ProcessPoolExecutor(all_cores(), get_context("spawn")) as workers:
        lines = [*workers.map(_built, orders)]
    steps: list[list[Sequence[Block]]] = [[] for _ in cores]
    for begin in range(0, len(lines), _TOGETHER):
        (folder / "list").write_text("".join(lines[begin : begin + _TOGETHER]), encoding="ascii")
        run = count([str(program), "list"], alike(cores), folder)
        for so_far, found in zip(steps, run, strict=True):
            so_far.extend(found.steps)
    return [*zip(*map(totals_of, steps, cores), strict=True)]


def _built(order: tuple[str, str, Path]) -> str:
    """Compiles a kernel; a line of the guest's list."""
    register_vector_math()
    text, target, path = order
    resolved = parse_target(target).resolved()
    built = build_kernels(calling(kernel_of(text)), resolved, None)
    export_library(built.executable, path, resolved)
    (call,) = built.lines.of[MAIN].calls
    words: list[str | int] = [f"./{path.name}", f"__tvm_ffi_{KERNEL}"]
    words += [_bytes_of(Region.ARENA, call.operands), _bytes_of(Region.RESULT, call.operands)]
    words.append(len(call.operands))
    for each in call.operands:
        dtype = np.dtype(each.dtype)
        words += [each.region.value, each.offset, _CODES[dtype.kind], 8 * dtype.itemsize]
        words += [len(each.shape), *each.shape]
    return " ".join(map(str, words)) + "\n"


def _bytes_of(region: Region, operands: Sequence[Operand]) -> int:
    """Where the last of the operands in a region ends."""
    ends = (
        each.offset + math.prod(each.shape) * np.dtype(each.dtype).itemsize
        for each in operands
        if each.region is region
    )
    return max(ends, default=0)
