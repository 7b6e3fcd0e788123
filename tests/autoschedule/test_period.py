"""Loops whose indices start anew are two loops: LLVM takes the remainder for the variable."""

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.autoschedule.cpu import schedule_kernel
from odtc.backends.kernels.common import parsed
from odtc.backends.targets import parse_target


@parsed.prim_func(private=True, s_tir=True)
def turned_back(
    x: T.Buffer((4, 2, 6, 8), "float32"),
    sine: T.Buffer((1, 1, 6, 8), "float32"),
    cosine: T.Buffer((1, 1, 6, 8), "float32"),
    y: T.Buffer((24, 16), "float32"),
):
    """The gradient of a rotary embedding, as it is fused with the transpose after it."""
    for i, j in T.grid(24, 16):
        with T.sblock("y"):
            r, c = T.axis.remap("SS", [i, j])
            y[r, c] = (
                T.if_then_else(
                    c % 8 >= 4,
                    x[r // 6, c // 8, r % 6, c % 8 - 4] * sine[0, 0, r % 6, c % 8 - 4] * -1.0,
                    T.float32(0),
                )
                + T.if_then_else(
                    c % 8 < 4,
                    x[r // 6, c // 8, r % 6, c % 8 + 4] * sine[0, 0, r % 6, c % 8 + 4],
                    T.float32(0),
                )
                + x[r // 6, c // 8, r % 6, c % 8] * cosine[0, 0, r % 6, c % 8]
            )


def test_a_remainder_becomes_a_loop() -> None:
    extents: list[int] = []
    body = schedule_kernel(turned_back, 16).body
    note = lambda loop: extents.append(int(loop.extent))  # noqa: E731
    tvm_ffi.structural_walk(body, [(tirx.For, note)], order="pre")
    assert extents == [24, 2, 8]


def test_what_this_machine_computes() -> None:
    scheduled = schedule_kernel(turned_back, 16).with_attr("global_symbol", "main")
    target = parse_target("host-cpu").resolved().to_tvm()
    with target:
        built = tvm.tirx.build(tvm.IRModule({"main": scheduled}), target)
    rng = np.random.default_rng(0)
    x, sine, cosine = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((4, 2, 6, 8), (1, 1, 6, 8), (1, 1, 6, 8))
    )
    result = tvm.runtime.tensor(np.zeros((24, 16), np.float32))
    built["main"](*map(tvm.runtime.tensor, (x, sine, cosine)), result)
    low, high = np.split(x * sine, 2, axis=-1)
    expected = np.concatenate([high, -low], -1) + x * cosine
    expected = expected.transpose(0, 2, 1, 3).reshape(24, 16)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


@parsed.prim_func(private=True, s_tir=True)
def heads_side_by_side(
    q: T.Buffer((3, 5, 8), "float32"),
    k: T.Buffer((3, 5, 8), "float32"),
    y: T.Buffer((5, 48), "float32"),
):
    """The gradient of what three heads of attention take a part of each, as it is concatenated."""
    for i, j in T.grid(5, 48):
        with T.sblock("y"):
            r, c = T.axis.remap("SS", [i, j])
            y[r, c] = T.if_then_else(c >= 24, k[c // 8 % 3, r, c % 8], q[c // 8 % 3, r, c % 8])


def test_a_remainder_of_a_quotient_is_no_shorter_loop() -> None:
    """Of the three heads: eight elements are neighbours in each, where loops had three."""
    extents: list[int] = []
    body = schedule_kernel(heads_side_by_side, 4).body
    tvm_ffi.structural_walk(
        body, [(tirx.For, lambda f: extents.append(int(f.extent)))], order="pre"
    )
    assert extents == [5, 6, 8]
