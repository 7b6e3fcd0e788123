"""Runs a kernel on this machine's first device of a kind."""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from odtc.autoschedule.tuning.build import KERNEL, MAIN, calling
from odtc.backends.family.gpu import GPU_CODE
from odtc.backends.lowering import build_kernels
from odtc.backends.objects.library import export_library
from odtc.backends.program.kernels import ARGUMENT, kernels_program
from odtc.backends.program.lines import Call, Line, Operand, Region
from odtc.backends.targets import Target, parse_target
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession

# Kinds of targets; what one of them is right in, the other has to be.
KINDS = ("opencl", "vulkan")


def _as_it_is(kernel: tirx.PrimFunc, target: Target) -> tuple[Any, Line]:
    """A kernel as TVM compiles it, by none of our passes, and the call of it."""
    *read, written = (
        Operand(Region.ARGUMENT, number, 0, str(each.dtype), tuple(map(int, each.shape)))
        for number, each in enumerate(kernel.params)
    )
    result = replace(written, region=Region.RESULT, number=0)
    line = Line(
        (Call(KERNEL, (*read, result)),),
        result,
        0,
        TensorSpec("", result.shape, result.dtype).nbytes,
    )
    with GPU_CODE[target.kind]():
        # As in a step: what a kernel is called with is planned.
        config = {**tvm.transform.PassContext.current().config, "tirx.disable_assert": True}
        with tvm.transform.PassContext(config=config):
            of = target.to_tvm()
            return tvm.compile(calling(kernel), of, relax_pipeline="default_build"), line


def library_of(
    kernel: tirx.PrimFunc,
    kind: str,
    read: Sequence[TensorSpec],
    folder: Path,
    *,
    planned: bool = True,
) -> tuple[Path, Path]:
    """The files of a kernel: what the native runtime takes, and the library beside it."""
    target = parse_target(f"host-{kind}").resolved()
    if planned:
        built = build_kernels(calling(kernel), target, None)
        executable, line = built.executable, built.lines.of[MAIN]
    else:
        executable, line = _as_it_is(kernel, target)
    content = kernels_program(line, read, kind)
    (program := folder / "kernel.bin").write_bytes(content)
    library = folder / "kernel.so"
    identity = hashlib.sha256(content).hexdigest()
    export_library(executable, library, target, identity)
    return program, library


def run_kernel(
    kind: str,
    kernel: tirx.PrimFunc,
    arrays: Sequence[np.ndarray],
    out: Sequence[int],
    dtype: str = "float32",
    *,
    planned: bool = True,
) -> np.ndarray:
    """Runs a kernel on these arrays and returns its last argument.

    What is not planned needs no workspace, and is what TVM alone makes of it.
    """
    written = TensorSpec("", tuple(out), dtype)
    read = [TensorSpec("", each.shape, str(each.dtype)) for each in arrays]
    given = {f"{ARGUMENT}{number}": each for number, each in enumerate(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        program, library = library_of(kernel, kind, read, Path(folder), planned=planned)
        with (
            kernels_on(LocalSession().on(kind), given) as opened,
            opened(program, library, written) as running,
        ):
            return running.result()
