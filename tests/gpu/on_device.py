"""Runs a kernel on this machine's first device of a kind."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import tirx

from odtc.backends.family.gpu import GPU_CODE
from odtc.backends.native.build import load_runtime
from tests.host import HOST

# Kinds of targets; what one of them is right in, the other has to be.
KINDS = ("opencl", "vulkan")


def compiled(kernel: tirx.PrimFunc, kind: str) -> tvm.runtime.Executable:
    """A module whose function `main` launches the kernel."""
    load_runtime(kind)
    target = tvm.target.Target({"kind": kind, "max_num_threads": 256}, host=HOST)
    with GPU_CODE[kind]():
        return tvm.compile(tvm.IRModule({"main": kernel}), target=target)


def run_kernel(
    kind: str,
    kernel: tirx.PrimFunc,
    arrays: Sequence[np.ndarray],
    out: Sequence[int],
    dtype: str = "float32",
) -> np.ndarray:
    """Runs a kernel `main` on these arrays and returns its last argument."""
    executable = compiled(kernel, kind)
    device = tvm.device(kind, 0)
    with tempfile.TemporaryDirectory() as folder:
        executable.export_library(str(Path(folder, "kernel.so")))
        library = tvm.runtime.load_module(str(Path(folder, "kernel.so")))
        result = tvm.runtime.empty(tuple(out), dtype, device)
        library["main"](*(tvm.runtime.tensor(each, device) for each in arrays), result)
        return result.numpy()
