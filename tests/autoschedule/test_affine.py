"""Loops are fused where every tensor is read along them as if it were flat."""

import pytest
from tvm import s_tir, te, tirx, topi

from odtc.autoschedule.affine import groups_of, is_contiguous, operations, steps_of

IMAGE = (4, 6, 5, 7)


def image(*shape: int) -> te.Tensor:
    return te.placeholder(shape or IMAGE, name="x")


def only_block(*tensors: te.Tensor) -> s_tir.SBlock:
    schedule = s_tir.Schedule(te.create_prim_func(list(tensors)))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    return schedule.get(block)


# What is computed from x, and the groups of its loops.
GROUPS = {
    "flat": (topi.exp, [[0, 1, 2, 3]]),
    "bias": (
        lambda x: te.compute(x.shape, lambda n, c, h, w: x[n, c, h, w] + x[0, c, 0, 0]),
        [[0], [1], [2, 3]],
    ),
    "reshape": (lambda x: topi.reshape(x, (24, 35)), [[0, 1]]),
    "concatenate": (lambda x: topi.concatenate([x, x], 1), [[0], [1], [2, 3]]),
    "pad": (lambda x: topi.nn.pad(x, (0, 0, 1, 0)), [[0, 1], [2], [3]]),
    "slice": (
        lambda x: topi.strided_slice(x, [0, 2, 0, 0], [4, 5, 5, 7], [1] * 4),
        [[0], [1, 2, 3]],
    ),
    "transpose": (lambda x: topi.transpose(x, (1, 0, 2, 3)), [[0], [1], [2, 3]]),
    "gather": (
        lambda x: te.compute(x.shape, lambda n, c, h, w: x[n, c, x[n, 0, 0, 0].astype("int32"), w]),
        [[0], [1], [2], [3]],
    ),
    "one-channel": (lambda x: topi.strided_slice(x, [0, 2], [4, 3], [1, 1]), [[0], [1, 2, 3]]),
    "nothing": (lambda x: te.compute((1, 1), lambda i, j: x[i, j, 0, 0]), [[0, 1]]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    compute, groups = GROUPS[name]
    x = image()
    block = only_block(x, compute(x))
    extents = [int(each.dom.extent) for each in block.iter_vars]
    assert groups_of(steps_of(block), extents) == groups


def test_a_step_is_that_of_the_place_in_memory() -> None:
    x = image(4, 6)
    y = te.compute((6, 4), lambda i, j: tirx.if_then_else(i > 2, x[3 - j, i], 0.0))
    assert steps_of(only_block(x, y)) == [(None, 0), (4, 1), (1, -6)]


def test_what_is_read_backwards_is_not_contiguous() -> None:
    x = image(4, 6)
    found = [
        is_contiguous(steps_of(only_block(x, y)), extents)
        for y, extents in ((topi.exp(x), (4, 6)), (topi.flip(x, 1), (4, 6)))
    ]
    assert found == [True, False]


def test_operations_do_not_count_indices() -> None:
    x = image(4, 6)
    y = te.compute((4, 6), lambda i, j: x[(i + 1) % 4, j] * 2.0 + x[i, j])
    assert operations(only_block(x, y).body.value) == 5
