"""Indices of GPU kernels, in 32 bits where these can count, and offsets as wide as they must be."""

import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.passes.ir.bindings import bindings_of, with_bindings
from odtc.passes.kernel.narrow_indices import NarrowIndices
from odtc.passes.memory.arena import TakeOffsets


def doubled(elements: int, dtype: str) -> tvm.IRModule:
    """A kernel that adds each element to itself, with loops of 64 bits."""

    @parsed.prim_func(private=False, s_tir=True)
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


LAST = (1 << 31) - 1000


def called(offset: int, dtype: str, *, directly: bool) -> tvm.IRModule:
    """A step that calls a kernel with a tensor there, and `near`, the same, at the start."""
    module = NarrowIndices().run(doubled(1000, dtype))
    module["near"] = module["kernel"]
    builder, shape = relax.BlockBuilder(), relax.ShapeExpr([1000])
    with builder.function("step", []):
        size = relax.ShapeExpr([1 << 40])
        storage = builder.emit(relax.op.memory.alloc_storage(size, 0, "global", "uint8"))
        at = [
            builder.emit(relax.op.memory.alloc_tensor(storage, place, shape, dtype))
            for place in (0, 1024 * 4, offset)
        ]
        near, last = at[1:]
        if not directly:
            both = builder.emit(relax.Tuple(at[1:]))
            near, last = (builder.emit(relax.TupleGetItem(both, n)) for n in range(2))
        builder.emit_func_output(at[0])
    calls = [("near", [at[0], near]), ("kernel", [at[0], last])]
    step = builder.get()["step"]
    module["step"] = with_bindings(
        step,
        [
            *bindings_of(step),
            *(
                relax.VarBinding(relax.Var(name), relax.Call(module.get_global_var(name), given))
                for name, given in calls
            ),
        ],
    )
    return module


@pytest.mark.parametrize("directly", [True, False])
@pytest.mark.parametrize(
    ("offset", "dtype", "bits"),
    [
        (LAST - 1, "uint8", 32),
        (LAST, "uint8", 64),
        (LAST, "float32", 32),
        (4 * LAST, "float32", 64),
    ],
)
def test_offsets_are_as_wide_as_the_arena_asks_for(
    offset: int, dtype: str, bits: int, directly: bool
) -> None:
    """They count elements of the tensor's own type, of each kernel alone."""
    moved = TakeOffsets(to_index=True).run(called(offset, dtype, directly=directly))
    for name, wanted in (("kernel", bits), ("near", 32)):
        for argument in moved[name].params:
            assert str(argument.elem_offset.ty.dtype) == f"int{wanted}"
