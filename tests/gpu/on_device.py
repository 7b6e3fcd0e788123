"""Runs a kernel on this machine's first device of a kind."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tvm import tirx

from odtc.autoschedule.tuning.build import MAIN, calling
from odtc.backends.lowering import build_kernels
from odtc.backends.objects.library import export_library
from odtc.backends.program.kernels import ARGUMENT, kernels_program
from odtc.backends.targets import parse_target
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession

# Kinds of targets; what one of them is right in, the other has to be.
KINDS = ("opencl", "vulkan")


def library_of(
    kernel: tirx.PrimFunc, kind: str, read: Sequence[TensorSpec], folder: Path
) -> tuple[Path, Path]:
    """The files of a kernel: what the native runtime takes, and the library beside it."""
    target = parse_target(f"host-{kind}").resolved()
    built = build_kernels(calling(kernel), target, None)
    content = kernels_program(built.lines.of[MAIN], read, kind)
    (program := folder / "kernel.bin").write_bytes(content)
    library = folder / "kernel.so"
    identity = hashlib.sha256(content).hexdigest()
    export_library(built.executable, library, target, identity)
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
        program, library = library_of(kernel, kind, read, Path(folder))
        with (
            kernels_on(LocalSession().on(kind), given) as opened,
            opened(program, library, written) as running,
        ):
            return running.result()
