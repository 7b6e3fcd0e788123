"""Remainders of loops' variables, as LLVM compiles them for CPUs that this machine can run."""

from itertools import product

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from odtc.backends.cpus import tvm_cpu
from odtc.backends.family.rules import lower_blocks
from odtc.passes.kernel.compact_allocations import CompactAllocations
from odtc.passes.kernel.hide_remainders import HideRemainders
from tests.cpus import CPUS, runnable
from tests.fast import ALL

# What LLVM makes of a remainder is a matter of heads and their size: where it is wrong without the
# pass, it is so at any number of steps.
SHAPES = [*product((1, 2, 3, 4), (4, 8, 32) if ALL else (8,), (8, 16, 32, 64))]


def turned_back(heads: int, steps: int, size: int) -> tvm.IRModule:
    """The gradient of a rotary embedding, with heads inside the steps.

    It is a kernel `(dy[heads, steps, size], sine, cosine, dx[steps, heads * size])`: each element
    adds one from the other half of its head.
    """
    half = size // 2
    dy = te.placeholder((heads, steps, size), "float32", "dy")
    sine, cosine = (te.placeholder((steps, size), "float32", name) for name in ("sin", "cos"))

    def element(step: tirx.Var, column: tirx.Var) -> tvm.ir.Expr:
        head, at = column // size, column % size
        back = dy[head, step, (at + half) % size] * sine[step, at - half] * -1.0
        forth = dy[head, step, at + half] * sine[step, at + half]
        zero = tirx.const(0.0, "float32")
        turned = tirx.if_then_else(at >= half, back, zero)
        turned += tirx.if_then_else(at < half, forth, zero)
        return turned + dy[head, step, at] * cosine[step, at]

    dx = te.compute((steps, heads * size), element, "dx")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([dy, sine, cosine, dx]))
    _, column = schedule.get_loops(schedule.get_sblock("dx"))
    schedule.split(column, [None, 2])
    return lower_blocks(CompactAllocations()).run(schedule.mod)


def expected(dy: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> np.ndarray:
    heads, steps, size = dy.shape
    turned = dy * sine
    first, second = turned[..., : size // 2], turned[..., size // 2 :]
    dx = np.concatenate([second, -first], -1) + dy * cosine
    return dx.transpose(1, 0, 2).reshape(steps, heads * size)


@pytest.mark.parametrize("cpu", CPUS)
def test_values(cpu: str) -> None:
    wrong = []
    for shape in SHAPES:
        heads, steps, size = shape
        rng = np.random.default_rng(0)
        given = [
            rng.standard_normal(each).astype(np.float32)
            for each in ((heads, steps, size), (steps, size), (steps, size))
        ]
        found = tvm.runtime.empty((steps, heads * size), "float32")
        module = HideRemainders().run(turned_back(*shape))
        tvm.compile(module, tvm_cpu(runnable(cpu)))["main"](*map(tvm.runtime.tensor, given), found)
        if not np.allclose(found.numpy(), expected(*given), atol=1e-5):
            wrong.append(shape)
    assert not wrong
