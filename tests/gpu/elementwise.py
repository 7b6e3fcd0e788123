"""Kernels of one expression for each element, for tests of how expressions are written."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, s_tir, te, tirx

from tests.gpu.on_device import run_kernel

COUNT = 64


def elementwise(
    build: Callable[..., ir.Expr], dtypes: Sequence[str], out: str, lanes: int = 1
) -> tirx.PrimFunc:
    """A kernel of `COUNT` items, or of so many fewer that each has some neighbours as a vector."""
    inputs = [te.placeholder((COUNT,), dtype, f"a{i}") for i, dtype in enumerate(dtypes)]
    result = te.compute((COUNT,), lambda i: build(*(each[i] for each in inputs)).astype(out), "out")
    kernel = te.create_prim_func([*inputs, result]).with_attr("global_symbol", "main")
    schedule = s_tir.Schedule(kernel)
    (loop,) = schedule.get_loops(schedule.get_sblock("out"))
    group, item, vector = schedule.split(loop, [None, COUNT // lanes // 2, lanes])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(item, "threadIdx.x")
    schedule.vectorize(vector)
    return schedule.mod["main"]


def on_vulkan(
    build: Callable[..., ir.Expr], arrays: Sequence[np.ndarray], out: str, lanes: int = 1
) -> np.ndarray:
    """Runs such a kernel on arrays of `COUNT` elements and returns its result."""
    kernel = elementwise(build, [str(each.dtype) for each in arrays], out, lanes)
    return run_kernel("vulkan", kernel, arrays, (COUNT,), out, planned=False)
