"""Lines are cut where nothing is trained before: drawn ones are run whole and in two parts."""

from dataclasses import replace

import numpy as np
import pytest

from odtc.backends.program.features import Cut, NothingFixedError, UncutError, cut
from odtc.backends.program.lines import Call, Line, Operand, Region
from odtc.backends.program.values import Kind

WIDE, SLOTS = 16, 6
INPUT, FROZEN, TRAINED, LABEL = range(4)
KINDS = [Kind.FED, Kind.FIXED, Kind.CHANGING, Kind.CHANGING]
WEIGHTS = [False, True, True, False]
ARGUMENTS = [Operand(Region.ARGUMENT, number, 0, "float32", (WIDE,)) for number in range(4)]
RESULT = Operand(Region.RESULT, 0, 0, "float32", (WIDE,))


def slot(number: int) -> Operand:
    return Operand(Region.ARENA, 0, 64 * number, "float32", (WIDE,))


def line_of(*calls: Call) -> Line:
    return Line(calls, RESULT, 64 * SLOTS, 64)


def call(kernel: str, given: list[Operand], *results: Operand, changed: tuple = ()) -> Call:
    return Call(kernel, (*given, *results), len(given), changed)


def run(line: Line, arguments: list[np.ndarray]) -> np.ndarray:
    """The result of a line whose kernels add up what they are given, each in a way of its own."""
    memory = {
        Region.ARENA: np.full(line.arena_bytes, 255, np.uint8),
        Region.RESULT: np.full(line.result_bytes, 255, np.uint8),
    }

    def at(operand: Operand) -> np.ndarray:
        if operand.region is Region.ARGUMENT:
            return arguments[operand.number]
        size = int(np.prod(operand.shape)) * np.dtype(operand.dtype).itemsize
        found = memory[operand.region][operand.offset : operand.offset + size]
        return found.view(operand.dtype).reshape(operand.shape)

    for each in line.calls:
        given = [at(operand).copy() for operand in each.operands[: each.given]]
        written = [*each.changed, *range(each.given, len(each.operands))]
        for place, number in enumerate(written):
            factor = np.float32(int(each.kernel) + place + 1)
            at(each.operands[number])[...] = sum(given, np.float32(0)) * factor % np.float32(97)
    return at(line.result).copy()


def in_parts(made: Cut, arguments: list[np.ndarray], other: list[np.ndarray]) -> np.ndarray:
    """The same of features that were made before, when all that changes was something else."""
    row = run(made.first, other)
    features = [
        row[start : start + 4 * WIDE].view(np.float32).copy() for start in range(0, row.size, 64)
    ]
    inputs = [
        each if number in (*made.inputs, TRAINED, LABEL, FROZEN) else np.full_like(each, np.nan)
        for number, each in enumerate(arguments)
    ]
    return run(made.over, [*inputs, *features])


def drawn(seed: int) -> Line:
    """A line whose memory is written again and again, and in place."""
    draw = np.random.default_rng(seed)
    live = [slot(0)]
    calls = [call("0", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], slot(0))]
    for _ in range(int(draw.integers(4, 20))):
        pool = [*live, *ARGUMENTS]
        given = [pool[n] for n in draw.integers(0, len(pool), 2)]
        kernel = str(draw.integers(0, 5))
        result = slot(int(draw.integers(0, SLOTS)))
        place = int(draw.integers(0, 2))
        if draw.random() < 0.2 and given[place].region is Region.ARENA and given[0] != given[1]:
            calls.append(call(kernel, given, changed=(place,)))
        elif result not in given:
            calls.append(call(kernel, given, result))
            live = [*{*live, result}]
    calls.append(call("7", [*live, ARGUMENTS[TRAINED], ARGUMENTS[LABEL]], RESULT))
    return line_of(*calls)


def arrays(seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 50, WIDE).astype(np.float32) for _ in range(4)]


def test_drawn_lines_give_the_same_in_two_parts():
    cuts = 0
    for seed in range(300):
        line, arguments = drawn(seed), arrays(seed)
        try:
            made = cut(line, KINDS, WEIGHTS)
        except UncutError:
            continue
        other = [*arguments[:2], *arrays(seed + 1)[2:]]
        np.testing.assert_array_equal(
            in_parts(made, arguments, other), run(line, arguments), err_msg=str(seed)
        )
        cuts += 1
    assert cuts > 150


def test_a_feature_that_is_made_twice_is_one():
    """As a plan that makes tensors again does."""
    frozen = [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]]
    line = line_of(
        call("1", frozen, slot(0)),
        call("2", [slot(0), ARGUMENTS[TRAINED]], slot(1)),
        call("3", [slot(1)], slot(0)),
        call("1", frozen, slot(2)),
        call("4", [slot(0), slot(2)], RESULT),
    )
    made = cut(line, KINDS, WEIGHTS)
    assert len(made.features) == len(made.first.calls) == 1
    assert [each.kernel for each in made.over.calls] == ["2", "3", "4"]


def test_what_no_input_takes_part_in_stays_in_both():
    line = line_of(
        call("1", [ARGUMENTS[FROZEN]], slot(0)),
        call("2", [ARGUMENTS[INPUT], slot(0)], slot(1)),
        call("3", [slot(0), slot(1), ARGUMENTS[TRAINED]], RESULT),
    )
    made = cut(line, KINDS, WEIGHTS)
    assert [each.kernel for each in made.first.calls] == ["1", "2"]
    assert [each.kernel for each in made.over.calls] == ["1", "3"]
    assert made.inputs == ()


def test_inputs_that_are_read_beside_are_named():
    line = line_of(
        call("1", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], slot(0)),
        call("2", [ARGUMENTS[INPUT], slot(0), ARGUMENTS[TRAINED]], RESULT),
    )
    assert cut(line, KINDS, WEIGHTS).inputs == (INPUT,)


def test_a_statistic_that_a_step_moves_is_not_frozen():
    line = line_of(
        call("1", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], slot(0), changed=(1,)),
        call("2", [slot(0), ARGUMENTS[TRAINED]], RESULT),
    )
    with pytest.raises(NothingFixedError, match="no frozen weight comes before"):
        cut(line, KINDS, WEIGHTS)


def test_a_feature_that_is_written_over_is_refused():
    line = line_of(
        call("1", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], slot(0)),
        call("2", [slot(0), ARGUMENTS[TRAINED]], changed=(0,)),
        call("3", [slot(0)], RESULT),
    )
    with pytest.raises(UncutError, match="writes over what comes before it"):
        cut(line, KINDS, WEIGHTS)


def test_nothing_is_cut_where_nothing_is_trained():
    line = line_of(call("1", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], RESULT))
    with pytest.raises(NothingFixedError, match="nothing that is trained"):
        cut(line, KINDS, WEIGHTS)


def test_calls_of_which_nothing_is_known_are_not_cut():
    line = line_of(
        call("1", [ARGUMENTS[INPUT], ARGUMENTS[FROZEN]], slot(0)),
        call("2", [slot(0), ARGUMENTS[TRAINED]], RESULT),
    )
    unknown = replace(line, calls=tuple(replace(each, given=0) for each in line.calls))
    with pytest.raises(NothingFixedError):
        cut(unknown, KINDS, WEIGHTS)
