"""Products keep to the memory that a group shares, whatever tile they take."""

from dataclasses import replace

import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.known import GPUS, OF_HOSTS
from odtc.backends.gpu.machine import PHONE, Gpu
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.kernels.product.fused import Product
from tests.gpu.accesses import Accesses, is_shared

MACHINES = {
    "phone": PHONE,
    "mali-g76": GPUS["mali-g76"],
    "large": OF_HOSTS["host-opencl"],
    "half": replace(PHONE, multiplies_half=True),
    "matrices": replace(GPUS["nvidia-h200"], multiplies_half=True),
}
WINDOW = [12, 3, 1, 1, 1, 12] * 2
# Families, numbers, operands and the result: of rows that hold whole vectors, and of others.
CASES = [
    *(
        ("matmul", (left, right), ((k, m) if left else (m, k), (n, k) if right else (k, n)), (m, n))
        for left, right in ((0, 0), (0, 1), (1, 0), (1, 1))
        for m, n, k in ((300, 260, 64), (301, 131, 37))
    ),
    ("convolution", WINDOW, ((2, 32, 12, 12), (48, 32, 3, 3)), (2, 48, 12, 12)),
    ("data-gradient", WINDOW, ((2, 48, 12, 12), (48, 32, 3, 3)), (2, 32, 12, 12)),
    ("weight-gradient", WINDOW, ((2, 32, 12, 12), (2, 48, 12, 12)), (48, 32, 3, 3)),
]


def tiles_of(name: str, gpu: Gpu) -> list[Gpu]:
    """The same machine with each of its tiles that fit, alone."""
    if name == "matrices":
        return [replace(gpu, matrix_tiles=(each,)) for each in gpu.matrix_tiles]
    fitting = [t for t in gpu.tiles if t.rows * t.columns <= gpu.accumulators]
    if name == "half":
        fitting = [t for t in fitting if t.columns % 2 == 0]
    return [replace(gpu, tiles=(each,)) for each in fitting]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1][:2]}-{case[2][0]}")
def test_no_place_is_outside(name: str, case: tuple) -> None:
    family, numbers, shapes, out = case
    for gpu in tiles_of(name, MACHINES[name]):
        with tvm.target.Target("vulkan"), IRBuilder() as builder:
            with T.prim_func(s_tir=True):
                T.func_name("main")
                buffers = [T.arg(f"a{i}", T.buffer(each)) for i, each in enumerate([*shapes, out])]
                product = Product(list(numbers), buffers[:-1], buffers[-1], lambda _, v: v)
                GPU_LOOPS[family](product, gpu)
            kernel = builder.get()
        assert Accesses(kernel, is_shared).outside() == [], gpu.tiles


def test_a_place_beyond_a_buffer_is_found() -> None:
    """64 items of 100 write to 64 numbers where they are asked, and all of them otherwise."""
    for is_guarded in (True, False):
        with IRBuilder() as builder:
            with T.prim_func(s_tir=True):
                T.func_name("main")
                with T.thread_binding(100, "threadIdx.x") as item, T.sblock("all"):
                    near = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                    with T.If(item < 64 if is_guarded else item < 65), T.Then():
                        T.buffer_store(near, tirx.const(0.0, "float32"), [item])
            kernel = builder.get()
        assert len(Accesses(kernel, is_shared).outside()) == (0 if is_guarded else 1)
