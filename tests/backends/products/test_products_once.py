"""Products that are added to a tensor, in the memory of that tensor."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.caches import Caches
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.family.rules import lower_blocks
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.kernels.product.matmul import matmul_onto
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.write_products import write_product
from odtc.passes.kernel.compact_allocations import CompactAllocations
from odtc.passes.schedule.write_over import replaceable, written_over
from tests.fast import examples
from tests.host import loaded

MACHINES = {
    "neon": replace(machine_of(128), cache_bytes=1 << 13),
    "avx2": machine_of(256),
    "avx-512": machine_of(512),
    "caches": machine_of(128, caches=Caches(1 << 14, 1 << 16)),
}


def kernel_of(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], name: str
) -> tvm.tirx.PrimFunc:
    """The kernel without blocks, as passes look at it."""
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns)]
    stored = [s[::-1] if t else s for s, t in zip(shapes, transposed, strict=True)]
    left, right = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in zip("ab", stored, strict=True)
    )
    product = fused_product(matmul_onto(left, right, *transposed))
    assert product
    made = write_product(product, MACHINES[name], CPU_LOOPS).with_attr("global_symbol", "main")
    return lower_blocks(CompactAllocations()).run(tvm.IRModule({"main": made}))["main"]


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=examples(8), deadline=None)
@given(
    sizes=st.tuples(st.integers(16, 400), st.integers(16, 90), st.integers(16, 200)),
    trans_left=st.booleans(),
)
# Rows and columns of full tiles, and such with one or nearly one tile left over.
@example(sizes=(384, 64, 192), trans_left=True)
@example(sizes=(389, 64, 577), trans_left=True)
@example(sizes=(16, 16, 16), trans_left=False)
def test_a_sum_takes_the_memory_of_what_was_there(
    name: str, sizes: tuple[int, int, int], trans_left: bool
) -> None:
    kernel = kernel_of(sizes, (trans_left, False), name)
    assert replaceable(kernel) == [2]
    rows, depth, columns = sizes
    rng = np.random.default_rng(0)
    a, b, before = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((rows, depth), (depth, columns), (rows, columns))
    )
    stored = np.ascontiguousarray(a.T) if trans_left else a
    tensors = [tvm.runtime.tensor(each) for each in (stored, b, before)]
    loaded(tvm.IRModule({"main": written_over(kernel, 2)}))["main"](*tensors)
    wanted = before + a.astype(np.float64) @ b
    bound = 2.0**-18 * (np.abs(before) + np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(tensors[2].numpy() - wanted) <= bound).all()
