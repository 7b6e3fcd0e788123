"""Runs a kernel on this machine's first device of a kind."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import tirx

from odtc.autoschedule.tuning.build import KERNEL, calling
from odtc.backends.family.gpu import GPU_CODE
from odtc.backends.objects.library import export_library
from odtc.backends.program.kernels import ARGUMENT, kernels_program
from odtc.backends.program.lines import Call, Line, Operand, Region
from odtc.backends.targets import parse_target
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession

# Kinds of targets; what one of them is right in, the other has to be.
KINDS = ("opencl", "vulkan")


def compiled(kernel: tirx.PrimFunc, kind: str) -> tvm.runtime.Executable:
    """A module whose function `kernel` launches the kernel: a part of what TVM makes of Relax."""
    target = parse_target(f"host-{kind}").to_tvm()
    with GPU_CODE[kind]():
        # As in a step: what a kernel is called with is planned.
        config = {**tvm.transform.PassContext.current().config, "tirx.disable_assert": True}
        with tvm.transform.PassContext(config=config):
            return tvm.compile(calling(kernel), target, relax_pipeline="default_build")


def library_of(
    kernel: tirx.PrimFunc,
    kind: str,
    read: Sequence[TensorSpec],
    written: TensorSpec,
    folder: Path,
) -> tuple[Path, Path]:
    """The files of a kernel: what the native runtime takes, and the library beside it."""
    operands = [
        Operand(region, number, 0, each.dtype, each.shape)
        for region, specs in ((Region.ARGUMENT, read), (Region.RESULT, [written]))
        for number, each in enumerate(specs)
    ]
    line = Line((Call(KERNEL, tuple(operands)),), operands[-1], 0, written.nbytes)
    content = kernels_program(line, read, kind)
    (program := folder / "kernel.bin").write_bytes(content)
    library = folder / "kernel.so"
    target = parse_target(f"host-{kind}").resolved()
    identity = hashlib.sha256(content).hexdigest()
    export_library(compiled(kernel, kind), library, target, identity)
    return program, library


def run_kernel(
    kind: str,
    kernel: tirx.PrimFunc,
    arrays: Sequence[np.ndarray],
    out: Sequence[int],
    dtype: str = "float32",
) -> np.ndarray:
    """Runs a kernel `main` on these arrays and returns its last argument."""
    written = TensorSpec("", tuple(out), dtype)
    read = [TensorSpec("", each.shape, str(each.dtype)) for each in arrays]
    given = {f"{ARGUMENT}{number}": each for number, each in enumerate(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        program, library = library_of(kernel, kind, read, written, Path(folder))
        with (
            kernels_on(LocalSession().on(kind), given) as opened,
            opened(program, library, written) as running,
        ):
            return running.result()
