"""Where values are computed that do not change in a loop."""

import pytest

from odtc.backends.spirv.body import Body
from odtc.backends.spirv.module import Module
from odtc.backends.spirv.opcodes import Op
from odtc.backends.spirv.types import BOOL, INT32, Types


def operations(words: list[int]) -> list[int]:
    found, at = [], 0
    while at < len(words):
        found.append(words[at] & 0xFFFF)
        at += words[at] >> 16
    return found


@pytest.mark.parametrize("is_unrolled", [True, False])
def test_only_loops_that_are_written_out_are_left(is_unrolled: bool) -> None:
    """A value that is kept over any other loop would take a register all the while."""
    module = Module()
    types = Types(module)
    body = Body(module, types)
    of = types.computed(INT32)
    zero, four, one = (types.constant(INT32, value) for value in (0, 4, 1))
    given = body.value(Op.I_ADD, of, four, one)

    def run(number: int) -> None:
        body.pure(Op.I_SUB, of, number, body.pure(Op.I_MUL, of, given, four))

    body.loop(INT32, (zero, four, one), run, unroll=is_unrolled)
    found = operations(body.words())
    assert (found.index(Op.I_MUL) < found.index(Op.LOOP_MERGE)) == is_unrolled
    assert found.index(Op.I_SUB) > found.index(Op.LOOP_MERGE)


def test_of_a_condition_only_what_takes_next_to_nothing_is_left() -> None:
    """A division that a condition is there to keep from zero stays behind it."""
    module = Module()
    types = Types(module)
    body = Body(module, types)
    of = types.computed(INT32)
    zero, four, one = (types.constant(INT32, value) for value in (0, 4, 1))
    given = body.value(Op.I_ADD, of, four, one)
    condition = body.value(Op.S_LESS_THAN, types.scalar(BOOL), given, four)

    def then() -> None:
        body.pure(Op.S_DIV, of, body.pure(Op.I_MUL, of, given, four), given)

    body.loop(INT32, (zero, four, one), lambda _: body.when(condition, then), unroll=True)
    found = operations(body.words())
    assert found.index(Op.I_MUL) < found.index(Op.LOOP_MERGE)
    assert found.index(Op.S_DIV) > found.index(Op.SELECTION_MERGE)
