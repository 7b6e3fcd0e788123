"""Inner loops of products for phones with float16 arithmetic, in machine code for a Cortex-A76.

As `tests/backends/products/test_neon_kernels.py`, but in mixed precision: a core does two vectors
of eight multiply-adds a cycle.
"""

from functools import cache

import pytest

from tests.backends.kernels.machine_code import Loop
from tests.backends.products.test_neon_kernels import (
    FAMILIES,
    PRODUCTS,
    SIDES,
    check_busy,
    product_loop,
    small_net,
    step_kernels,
)
from tests.fast import fast_if

# Of those, the fully connected layer's own product and the gradient of its data have 16 rows, which
# is not worth rounding for.
IN_FLOAT32 = 2


def multiplies(loop: Loop, lanes: str) -> bool:
    """Whether all multiply-adds of a loop are of such vectors."""
    adds = [item for item in loop if item.name == "fmla"]
    return bool(adds) and all(lanes in item.operands.split(",")[0] for item in adds)


@cache
def products(side: int) -> dict[str, Loop]:
    """The loops of the products of a step in mixed precision, by kernel."""
    kernels = step_kernels(small_net(side), has_half=True)
    loops = {name: product_loop(kernel) for name, kernel in kernels.items()}
    return {name: loop for name, loop in loops.items() if loop is not None}


@pytest.mark.parametrize("side", fast_if(SIDES[0].__eq__, SIDES))
def test_large_products_multiply_float16(side: int) -> None:
    loops = products(side)
    half = [name for name, loop in loops.items() if multiplies(loop, ".8h")]
    single = [name for name, loop in loops.items() if multiplies(loop, ".4s")]
    assert len(loops) == PRODUCTS, list(loops)
    assert len(single) == IN_FLOAT32, single
    assert len(half) == PRODUCTS - IN_FLOAT32, half


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("family", FAMILIES)
def test_they_keep_the_multiply_adders_busy(family: str, side: int) -> None:
    loops = {
        name: loop
        for name, loop in products(side).items()
        if family in name and multiplies(loop, ".8h")
    }
    assert loops
    for name, loop in loops.items():
        check_busy(name, loop)
