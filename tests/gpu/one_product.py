"""A product as a kernel of its own, on this machine's devices."""

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.grouped.loops import GROUPED_LOOPS
from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.kernels.product.fused import Product
from tests.gpu.on_device import run_kernel

MACHINES = {"phone": PHONE, "mali-g76": GPUS["mali-g76"], "large": LARGE}
LOOPS = {**GPU_LOOPS, **GROUPED_LOOPS}


def product(
    kind: str,
    family: str,
    numbers: Sequence[int],
    arrays: Sequence[np.ndarray],
    out: Sequence[int],
    gpu: Gpu,
) -> np.ndarray:
    """Twice the product and one, so that a tail is applied to each result once."""
    shapes = [each.shape for each in arrays]
    types = [str(each.dtype) for each in arrays]
    kernel = product_kernel(kind, family, numbers, shapes, out, gpu, types)
    return (run_kernel(kind, kernel, arrays, out) - 1) / 2


def product_kernel(
    kind: str,
    family: str,
    numbers: Sequence[int],
    shapes: Sequence[Sequence[int]],
    out: Sequence[int],
    gpu: Gpu,
    types: Sequence[str] = ("float32", "float32"),
) -> tirx.PrimFunc:
    """The kernel of that."""
    arguments = [(list(shape), dtype) for shape, dtype in zip(shapes, types, strict=True)]
    arguments += [(list(out), "float32")]
    with tvm.target.Target(kind), IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name("main")
            T.func_attr({"tirx.noalias": True})
            buffers = [T.arg(f"a{i}", T.buffer(*each)) for i, each in enumerate(arguments)]
            tail = Product(list(numbers), buffers[:-1], buffers[-1], lambda _, v: v * 2.0 + 1.0)
            LOOPS[family](tail, gpu)
        return builder.get()


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
