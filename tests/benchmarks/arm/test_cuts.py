"""Code that QEMU cut is one block again where it only ever runs as one."""

import random

from benchmarks.arm.blocks import Block
from benchmarks.arm.cores import CORES
from benchmarks.arm.cuts import joined
from benchmarks.arm.figures import profile_of
from benchmarks.arm.places import Places

# fmul v0.4s, v1.4s, v2.4s; add x0, x0, x1; b.ne to the start.
MULTIPLY, ADD, BRANCH = 0x6E22DC20, 0x8B010000, 0x54FFFFA1
CORE = CORES["Cortex-A76"]


def block(address: int, runs: int, *code: int) -> Block:
    return Block(address, runs, 16 * runs, 8 * runs, (3, 2, 1), 4, 5, code)


def test_what_runs_only_behind_another_block_is_part_of_it() -> None:
    parts = [block(100, 7, ADD), block(104, 7, MULTIPLY), block(108, 7, BRANCH)]
    random.Random(0).shuffle(parts)
    (whole,) = joined(parts)
    assert whole == Block(100, 7, 3 * 16 * 7, 3 * 8 * 7, (9, 6, 3), 12, 15, (ADD, MULTIPLY, BRANCH))


def test_what_also_runs_otherwise_stays_apart() -> None:
    """Jumped to besides, or behind a branch; two entries to one loop are joined each to its own."""
    assert len(joined([block(100, 7, ADD), block(104, 8, BRANCH)])) == 2
    assert len(joined([block(100, 7, BRANCH), block(104, 7, ADD)])) == 2
    parts = [block(100, 7, ADD, ADD, ADD), block(104, 9, ADD, ADD)]
    parts += [block(112, 7, BRANCH), block(112, 9, BRANCH)]
    assert [(each.runs, len(each.code)) for each in joined(parts)] == [(7, 4), (9, 3)]


def test_cycles_of_a_loop_do_not_depend_on_where_it_was_cut() -> None:
    """Each run begins with `movi v0.4s, #0`, behind which `fmla v0.4s, v1.4s, v2.4s` is a chain."""
    clear, chain = 0x4F000400, [0x4E22CC20] * 8
    whole = [block(100, 1000, clear, *chain, BRANCH)]
    cut = [block(100, 1000, clear, *chain[:1]), block(108, 1000, *chain[1:], BRANCH)]
    one, two = (profile_of(each, Places([]), CORE).total.pipeline for each in (whole, cut))
    assert one == two
    apart = profile_of([cut[1]], Places([]), CORE).total.pipeline
    assert apart > 1.2 * one
