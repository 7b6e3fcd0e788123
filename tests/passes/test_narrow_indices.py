"""Indices of GPU kernels, in 32 bits where these can count, and offsets as wide as they must be."""

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.passes.memory.arena import TakeOffsets
from odtc.passes.narrow_indices import NarrowIndices


def doubled(elements: int, dtype: str) -> tvm.IRModule:
    """A kernel that adds each element to itself, with loops of 64 bits."""

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((elements,), dtype), y: T.Buffer((elements,), dtype)):
        for i in T.serial(T.int64(elements)):
            y[i] = x[i] + x[i]

    return tvm.IRModule({"kernel": kernel})


def loop_of(module: tvm.IRModule) -> tirx.For:
    """The loop of the kernel."""
    return module["kernel"].body


@pytest.mark.parametrize(
    ("elements", "dtype", "bits"),
    [(1000, "float32", 32), (1 << 31, "float32", 64), (1000, "int64", 64)],
)
def test_what_32_bits_can_count_is_narrow(elements: int, dtype: str, bits: int) -> None:
    narrow = NarrowIndices().run(doubled(elements, dtype))
    assert str(loop_of(narrow).loop_var.ty.dtype) == f"int{bits}"


@pytest.mark.parametrize("bits", [32, 64])
def test_offsets_have_a_width_of_their_own(bits: int) -> None:
    narrow = NarrowIndices().run(doubled(1000, "float32"))
    moved = TakeOffsets(to_index=True, bits=bits).run(narrow)
    for argument in moved["kernel"].params:
        assert str(argument.elem_offset.ty.dtype) == f"int{bits}"
