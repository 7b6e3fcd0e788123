"""What the tensors of a line hold, call by call: what follows from inputs and frozen weights alone.

Memory is written again and again, so that a tensor's place does not say what is in it. `follow`
goes through the calls as they run, and gives each operand its value. Two calls of one kernel with
the same values give the same value: a plan may make a tensor twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from odtc.backends.program.lines import Line, Operand, Region


class Kind(IntEnum):
    """What a value follows from; that of a call is the last one of those that it reads."""

    FIXED = 0  # constants and weights that nothing changes
    FED = 1  # these, and inputs of the step
    CHANGING = 2  # anything else: labels, what is trained, the number of the step


@dataclass(frozen=True)
class Value:
    """The elements of a tensor.

    Attributes:
        kind: what they follow from.
        number: the same for the same elements; of a changing one the memory that it lies in.
        weighs: whether a weight takes part in them.
    """

    kind: Kind
    number: int
    weighs: bool = False


@dataclass(frozen=True)
class Followed:
    """A call with the values of its operands.

    Attributes:
        number: of the call in its line.
        kind: of its results.
        reads: values of the operands that it is given.
        makers: of each of these, the number of the call that made it; None of an argument, a
            constant, and memory that nothing wrote.
        makes: values of all operands once it has run.
    """

    number: int
    kind: Kind
    reads: tuple[Value, ...]
    makers: tuple[int | None, ...]
    makes: tuple[Value, ...]


def bytes_of(operand: Operand) -> int:
    """Bytes of a dense tensor."""
    return int(np.prod(operand.shape, dtype=np.int64)) * np.dtype(operand.dtype).itemsize


def follow(
    line: Line, kinds: Sequence[Kind], weights: Sequence[bool]
) -> tuple[list[Followed], Value]:
    """The calls of a line with what they read and make, and what the line returns.

    Args:
        line: whose operands that are arguments have numbers into the other two.
        kinds: of the arguments.
        weights: whether each is a weight.
    """
    changed = {each.number for each in written(line) if each.region is Region.ARGUMENT}
    of_arguments = [
        Kind.CHANGING if number in changed else kind for number, kind in enumerate(kinds)
    ]
    following = _Following(of_arguments, weights)
    calls = [following.call(number, line) for number in range(len(line.calls))]
    return calls, following.read(line.result)[0]


def written(line: Line) -> Iterator[Operand]:
    """The tensors that calls of a line write."""
    for call in line.calls:
        yield from (call.operands[number] for number in call.changed)
        yield from call.operands[call.given :]


@dataclass(frozen=True)
class _Held:
    """A tensor in memory: its end, what it holds, and the call that made it."""

    end: int
    value: Value
    maker: int


class _Following:
    """The values in memory, after some calls."""

    def __init__(self, kinds: Sequence[Kind], weights: Sequence[bool]) -> None:
        self._kinds, self._weights = kinds, weights
        self._numbers: dict[object, int] = {}
        # Where each tensor begins that was written, with its end and what it holds.
        self._held: dict[tuple[Region, int], _Held] = {}

    def call(self, number: int, line: Line) -> Followed:
        call = line.calls[number]
        read = [self.read(each) for each in call.operands[: call.given]]
        reads = tuple(value for value, _ in read)
        kind = max((value.kind for value in reads), default=Kind.FIXED)
        results = range(call.given, len(call.operands))
        # A tensor that a call changes was another one before.
        if call.changed or any(call.operands[n].region is Region.ARGUMENT for n in results):
            kind = Kind.CHANGING
        weighs = any(value.weighs for value in reads)
        made = list(reads)
        for place in (*call.changed, *results):
            operand = call.operands[place]
            key: tuple[object, ...] = (
                ("memory", operand.region, operand.number, operand.offset)
                if kind is Kind.CHANGING
                else ("call", call.kernel, reads, place)
            )
            value = Value(kind, self._number(key), weighs)
            made[place : place + 1] = [value]
            self._write(operand, value, number)
        return Followed(number, kind, reads, tuple(maker for _, maker in read), tuple(made))

    def read(self, operand: Operand) -> tuple[Value, int | None]:
        """What a tensor holds, and the call that made it."""
        if operand.region is Region.ARGUMENT:
            key = ("argument", operand.number, operand.offset)
            weighs = self._weights[operand.number]
            return Value(self._kinds[operand.number], self._number(key), weighs), None
        if operand.region is Region.CONSTANT:
            key = ("constant", operand.number, operand.offset)
            return Value(Kind.FIXED, self._number(key)), None
        place = (operand.region, operand.offset)
        held = self._held.get(place)
        if held and held.end == operand.offset + bytes_of(operand):
            return held.value, held.maker
        return Value(Kind.CHANGING, self._number(("memory", *place))), held and held.maker

    def _write(self, operand: Operand, value: Value, maker: int) -> None:
        first, end = operand.offset, operand.offset + bytes_of(operand)
        for region, start in list(self._held):
            if region is operand.region and start < end and self._held[region, start].end > first:
                del self._held[region, start]
        self._held[operand.region, first] = _Held(end, value, maker)

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
