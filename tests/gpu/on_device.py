"""Runs a kernel on this machine's first OpenCL device."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import tirx

from odtc.backends.native.build import load_runtime


def run_kernel(
    kernel: tirx.PrimFunc, arrays: Sequence[np.ndarray], out: Sequence[int], dtype: str = "float32"
) -> np.ndarray:
    """What a kernel `main` of these arrays writes to its last argument."""
    load_runtime("opencl")
    target = tvm.target.Target(
        {"kind": "opencl", "max_num_threads": 256}, host=tvm.target.Target({"kind": "llvm"})
    )
    device = tvm.device("opencl", 0)
    executable = tvm.compile(tvm.IRModule({"main": kernel}), target=target)
    with tempfile.TemporaryDirectory() as folder:
        executable.export_library(str(Path(folder, "kernel.so")))
        library = tvm.runtime.load_module(str(Path(folder, "kernel.so")))
        result = tvm.runtime.empty(tuple(out), dtype, device)
        library["main"](*(tvm.runtime.tensor(each, device) for each in arrays), result)
        return result.numpy()
