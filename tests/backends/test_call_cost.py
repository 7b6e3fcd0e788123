"""The model of what a call takes: its work, and the bytes that it moves."""

from collections.abc import Callable

import pytest
import tvm
from tvm import tirx

from odtc.backends.cost.call_cost import call_cost
from odtc.backends.families import family_of
from odtc.backends.kernels.attention.backward import attention_gradient
from odtc.backends.kernels.attention.forward import attention_kernel
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.gather.take import take_kernel
from odtc.backends.kernels.gather.take_update import take_update
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.passes.contract import run_pipeline

TARGET = parse_target("android-cpu").resolved()
COLUMNS, COUNT = 768, 512


def seconds(kernel: tirx.PrimFunc) -> float:
    """Of a call of a kernel that is lowered as in a step."""
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with TARGET.to_tvm():
        lowered = run_pipeline(family_of(TARGET).blocks, module)
    return call_cost(TARGET)(lowered["main"]).seconds


@pytest.mark.parametrize(
    "kernel",
    [
        lambda rows: take_kernel(1, rows, COLUMNS, COUNT, "float32", "int64"),
        lambda rows: take_update(rows, COLUMNS, COUNT, "int64", 1.0),
    ],
    ids=["read", "changed"],
)
def test_rows_that_no_index_names_cost_nothing(kernel: Callable[[int], tirx.PrimFunc]) -> None:
    small, large = seconds(kernel(2 * COUNT)), seconds(kernel(64 * COUNT))
    assert small == pytest.approx(large, rel=0.1)
    # A table that is not larger than what is read of it is read as a whole.
    assert seconds(kernel(COUNT // 8)) < 0.8 * small


@pytest.mark.parametrize("mask", [(4, 1, 1, 128), (4, 1, 128, 128), (1, 1, 128, 128)])
@pytest.mark.parametrize("of", ["forward", "backward"])
def test_attention_with_a_mask_costs_as_without(of: str, mask: tuple[int, ...]) -> None:
    """Its loops run over the keys that the mask leaves, of which all may be."""
    register_vector_math()
    machine = machine_of(TARGET.vector_bits)
    plain, masked = (
        Heads(4, 12, 128, 128, 64, 64, (True,) * 4, shape, 0.125, False, False)
        for shape in ((), mask)
    )
    costs = [
        seconds(
            attention_kernel(heads, machine)
            if of == "forward"
            else attention_gradient(heads, ["float32"] * 4, machine)
        )
        for heads in (plain, masked)
    ]
    assert costs[1] == pytest.approx(costs[0], rel=0.1)
