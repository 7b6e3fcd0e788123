"""Kernels that a GPU would not take: each limit, by a kernel that is just within it or beyond."""

# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from dataclasses import replace

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.core.errors import UnsupportedError
from odtc.passes.contract import PassError, run_pipeline
from odtc.passes.kernel.check_launches import CheckLaunches, Needs, launches_of, needs_of
from odtc.passes.memory.arena import TakeOffsets

SIZE = 96
# What `shared_sums` asks for: x, y, their offsets, and a number of the host's.
WITHIN = CheckLaunches("a-gpu{gpu=b}", SIZE, 8 * SIZE, 2 * 8 + 2 * 4 + 4, 2)


@parsed.prim_func(private=False, s_tir=True)
def shared_sums(
    x: T.Buffer((SIZE, 4), "float32"), y: T.Buffer((SIZE,), "float32"), n: T.int32
) -> None:
    """Two axes of items, a shared tensor, and a value that they all combine."""
    T.func_attr({"global_symbol": "main"})
    block = T.launch_thread("blockIdx.x", 4)
    item = T.launch_thread("threadIdx.x", SIZE // 4)
    row = T.launch_thread("threadIdx.y", 4)
    near = T.alloc_buffer((SIZE,), "float32", scope="shared")
    total = T.alloc_buffer((1,), "float32", scope="local")
    near[row * (SIZE // 4) + item] = x[row * (SIZE // 4) + item, block]
    T.tvm_storage_sync("shared")
    nobody = T.reinterpret("handle", T.uint64(0))
    with T.attr(T.comm_reducer(lambda a, b: a + b, [T.float32(0)]), "reduce_scope", nobody):
        T.tvm_thread_allreduce(T.uint32(1), near[item], T.bool(True), total[0], item, row)
    if item < n:
        y[row * (SIZE // 4) + item] = total[0]


@parsed.prim_func(private=False, s_tir=True)
def twice(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")) -> None:
    """Two launches; the second reads what the first did not."""
    T.func_attr({"global_symbol": "main"})
    with T.launch_thread("blockIdx.x", 1):
        item = T.launch_thread("threadIdx.x", SIZE)
        y[item] = T.float32(1)
    for _ in range(3):
        with T.launch_thread("blockIdx.x", SIZE):
            other = T.launch_thread("threadIdx.x", 1)
            y[other] = y[other] + x[other]


@parsed.prim_func(private=False, s_tir=True)
def on_the_host(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")) -> None:
    """A launch, and an element that is written outside of it."""
    T.func_attr({"global_symbol": "main"})
    with T.launch_thread("threadIdx.x", SIZE) as item:
        y[item] = x[item]
    y[0] = T.float32(0)


@parsed.prim_func(private=False, s_tir=True)
def asks_on_the_host(x: T.Buffer((SIZE,), "float32"), y: T.Buffer((SIZE,), "float32")) -> None:
    """A launch that depends on an element."""
    T.func_attr({"global_symbol": "main"})
    if x[0] > T.float32(0):
        with T.launch_thread("threadIdx.x", SIZE) as item:
            y[item] = x[item]


def module(kernel: tirx.PrimFunc) -> tvm.IRModule:
    return TakeOffsets(to_index=True).run(tvm.IRModule({"sums": kernel}))


def test_what_launches_ask_for() -> None:
    (sums,) = launches_of(module(shared_sums)["sums"].body)
    assert needs_of(sums) == Needs(SIZE, 8 * SIZE, 28, 2)
    first, second = launches_of(module(twice)["sums"].body)
    assert needs_of(first) == Needs(SIZE, 0, 8 + 4, 1)
    assert needs_of(second) == Needs(1, 0, 2 * (8 + 4), 2)


def test_a_kernel_at_every_limit_is_taken_as_it_is() -> None:
    given = module(shared_sums)
    assert run_pipeline([WITHIN], given)["sums"].same_as(given["sums"])


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"items": SIZE - 1}, "work-groups of 96 items; the GPU of a-gpu{gpu=b} takes at most 95"),
        (
            {"shared_bytes": 767},
            "768 bytes that a work-group shares; the GPU of a-gpu{gpu=b} takes at most 767",
        ),
        (
            {"argument_bytes": 27},
            "28 bytes of arguments; the GPU of a-gpu{gpu=b} takes at most 27",
        ),
        ({"buffers": 1}, "2 buffers; the GPU of a-gpu{gpu=b} takes at most 1"),
    ],
)
def test_a_kernel_beyond_a_limit(limits: dict[str, int], what: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        run_pipeline([replace(WITHIN, **limits)], module(shared_sums))
    assert str(error.value) == (
        f"the kernel sums needs {what}\n"
        "  where: a-gpu{gpu=b}\n"
        "  hint: name the device's GPU if it takes more (gpu=, of `odtc targets`), or compile the "
        "model for another target, such as the CPU of that device"
    )


@pytest.mark.parametrize("kernel", [on_the_host, asks_on_the_host])
def test_a_kernel_that_is_not_bound_to_threads(kernel: tirx.PrimFunc) -> None:
    with pytest.raises(PassError, match=r"pass check-launches.*sums computes outside of threads"):
        run_pipeline([WITHIN], module(kernel))
