"""Kernels of plain loops on the threads of a GPU."""

# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import transform as S  # noqa: N812
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.core.ir.kernel_marks import INDEPENDENT
from odtc.frontend.updates.update_kernels import statistic_kernel
from odtc.passes.contract import run_pipeline, tvm_passes
from odtc.passes.kernel.bind_loops import BindLoops
from tests.gpu.on_device import KINDS, run_kernel

SIZE = 700


@parsed.prim_func(private=False, s_tir=True)
def handed_on(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    """The first element, and twice it, are values that the loop is given."""
    T.func_attr({"global_symbol": "main"})
    first: T.let = x[0]
    twice: T.let = first * T.float32(2)
    for i in T.parallel(SIZE):
        y[i] = x[i] + twice


@parsed.prim_func(private=False, s_tir=True)
def changed(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    """Its result changes after it is read: no work-item may read it again."""
    T.func_attr({"global_symbol": "main"})
    y[0] = x[1]
    kept: T.let = y[0]
    for i in T.parallel(SIZE):
        y[i] = x[i] + kept


@parsed.prim_func(private=False, s_tir=True)
def conditional(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in T.parallel(SIZE):
        y[i] = T.float32(0)
    if x[0] > T.float32(-1e9):
        for i in T.parallel(SIZE):
            y[i] = x[i] * T.float32(3)


@parsed.prim_func(private=False, s_tir=True)
def nested(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    """Chunks of 64, of which the last is shorter."""
    T.func_attr({"global_symbol": "main"})
    for chunk in T.parallel(11):
        for i in T.serial(T.min(64, SIZE - chunk * 64), annotations={"odtc.independent": 64}):
            y[chunk * 64 + i] = x[chunk * 64 + i] + T.float32(1)


@parsed.prim_func(private=False, s_tir=True)
def serial(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
    """Each element depends on the one before; an outer loop stays on the host."""
    T.func_attr({"global_symbol": "main"})
    for i in range(SIZE):
        y[i] = x[i]
    for _ in range(2):
        for i in T.parallel(SIZE):
            y[i] = y[i] + T.float32(1)
    for i in range(SIZE - 1):
        y[i + 1] = y[i + 1] + y[i]


KERNELS = {
    "handed-on": (handed_on, lambda x: x + 2 * x[0]),
    "changed": (changed, lambda x: x + x[1]),
    "conditional": (conditional, lambda x: 3 * x),
    "nested": (nested, lambda x: x + 1),
    "serial": (serial, lambda x: np.cumsum(x.astype(np.float64) + 2)),
}


def bound(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    lower = tvm_passes(S.ConvertBlocksToOpaque, S.LowerOpaqueBlock)
    return run_pipeline((*lower, BindLoops(64)), tvm.IRModule({"main": kernel}))["main"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", KERNELS)
def test_values(kind: str, name: str) -> None:
    kernel, expected = KERNELS[name]
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    found = run_kernel(kind, bound(kernel), [x], (SIZE,))
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-4)


def launches(kernel: tirx.PrimFunc) -> list[int]:
    """Work-items of each launch."""
    found: list[int] = []

    def visit(statement: tirx.AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            found.append(int(statement.value))

    tvm_ffi.structural_walk(bound(kernel).body, (tirx.AttrStmt, visit))
    return [group * item for group, item in zip(found[::2], found[1::2], strict=True)]


def test_loops_become_work_items() -> None:
    assert launches(handed_on) == [704]
    assert launches(nested) == [704]
    # A value that changes is none that each may read: one work-item does all.
    assert launches(changed) == [1]
    assert launches(serial) == [1, 704, 1]
    assert INDEPENDENT == "odtc.independent"


def test_statistics_are_copied_by_an_item_for_each_element() -> None:
    """Items that mark the loss change what others ask of it, but not the answer."""
    assert launches(statistic_kernel((300, 2)).with_attr("global_symbol", "main")) == [640]


def test_private_memory_has_a_bound() -> None:
    @parsed.prim_func(private=False, s_tir=True)
    def hungry(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.parallel(SIZE):
            with T.sblock("own"):
                own = T.sblock_alloc_buffer((5000,), "float32")
                own[0] = x[i]
                y[i] = own[0]

    with pytest.raises(Exception, match="20000 bytes for each work-item"):
        bound(hungry)
