"""Blocks that QEMU cut: at a page's end, and behind as many instructions as it translates at once.

A loop in two blocks, each modelled as a loop of its own, has chains that are not there: what the
first block gives to the second is a loop's own value then.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable

from benchmarks.arm.blocks import Block
from benchmarks.arm.instructions import Kind, instruction

_WORD = 4


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Blocks, with each that only ever runs behind another one's end as part of that.

    Args:
        blocks: of a step.
    """
    found: list[Block] = []
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for block in sorted(blocks, key=lambda each: each.address):
        number = len(found)
        if waiting := ends.get((block.address, block.runs)):
            number = waiting.pop()
            found[number] = _one(found[number], block)
        else:
            found.append(block)
        if instruction(block.code[-1]).kind != Kind.BRANCH:
            ends[block.address + _WORD * len(block.code), block.runs].append(number)
    return found


def _one(first: Block, second: Block) -> Block:
    """Two blocks that run as one."""
    pairs = zip(first.missed, second.missed, strict=True)
    one, two, three = (a + b for a, b in pairs)
    return dataclasses.replace(
        first,
        loaded=first.loaded + second.loaded,
        stored=first.stored + second.stored,
        missed=(one, two, three),
        walks=first.walks + second.walks,
        written_back=first.written_back + second.written_back,
        code=first.code + second.code,
    )
