"""The model of what a call takes: its work, and the bytes that it moves."""

from collections.abc import Callable

import pytest
import tvm
from tvm import tirx

from odtc.backends.cost.call_cost import call_cost
from odtc.backends.families import family_of
from odtc.backends.kernels.gather.take import take_kernel
from odtc.backends.kernels.gather.take_update import take_update
from odtc.backends.targets import parse_target
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
