"""Cuts a line in two where nothing is trained before: what gives features, and what goes on.

    inputs, frozen weights ─first→ features ─over, with labels and what is trained→ result

Both are calls of the line, as they are and in its order: together they give the bits of the whole.
What both need and no input takes part in, such as a weight in another layout, both compute.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odtc.backends.program.lines import Call, Line, Operand, Region
from odtc.backends.program.values import Followed, Kind, Value, bytes_of, follow
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT


class UncutError(Exception):
    """A line cannot be cut; the text says why."""


class NothingFixedError(UncutError):
    """Nothing in it is the same at any step, or all of it is."""


@dataclass(frozen=True)
class Cut:
    """A line in two.

    Attributes:
        features: tensors between the two, as the second reads them: arguments whose numbers follow
            those of the line's own.
        first: gives the features as one row of bytes, each where `offsets_of` says.
        over: gives what the line does, of features in place of what they were made from.
        inputs: numbers of the inputs that it reads all the same.
    """

    features: tuple[Operand, ...]
    first: Line
    over: Line
    inputs: tuple[int, ...]


def cut(line: Line, kinds: Sequence[Kind], weights: Sequence[bool]) -> Cut:
    """Cuts a line.

    Args:
        line: of a step or an evaluation, whose arguments have numbers from 0.
        kinds: of the arguments.
        weights: whether each is a weight.

    Raises:
        NothingFixedError: no frozen weight comes before what is trained, or nothing is trained.
        UncutError: a feature is written over.
    """
    calls, result = follow(line, kinds, weights)
    if result.kind is not Kind.CHANGING:
        raise NothingFixedError("nothing that is trained takes part in it")
    between = _Between(line, calls, len(kinds))
    if not between.weighs:
        raise NothingFixedError("no frozen weight comes before what is trained")
    return Cut(tuple(between.features.values()), between.first(), between.over(), between.inputs)


def offsets_of(sizes: Iterable[int]) -> list[int]:
    """Where tensors of so many bytes begin that follow each other, and behind the last one."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + -(-size // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT)
    return offsets


class _Between:
    """What calls that change read of those that do not.

    Attributes:
        features: by the number of their value.
        inputs: numbers of the arguments that are inputs among it.
        weighs: whether a weight takes part in a feature.
    """

    def __init__(self, line: Line, calls: Sequence[Followed], arguments: int) -> None:
        self._line, self._calls = line, calls
        self.features: dict[int, Operand] = {}
        # The first call that makes each.
        self._makers: dict[int, int] = {}
        inputs = set[int]()
        self.weighs = False
        for each in calls:
            if each.kind is not Kind.CHANGING:
                continue
            for place, (value, maker) in enumerate(zip(each.reads, each.makers, strict=True)):
                if value.kind is not Kind.FED:
                    continue
                operand = line.calls[each.number].operands[place]
                if maker is None:
                    inputs.add(operand.number)
                    continue
                if place in line.calls[each.number].changed:
                    raise UncutError("what is trained writes over what comes before it")
                number = arguments + len(self.features)
                self.features.setdefault(value.number, _argument(operand, number))
                self._makers.setdefault(value.number, maker)
                self.weighs |= value.weighs
        self.inputs = tuple(sorted(inputs))

    def first(self) -> Line:
        """What makes the features."""
        offsets = offsets_of(map(bytes_of, self.features.values()))
        placed = {
            (self._makers[number], number): offset
            for number, offset in zip(self.features, offsets, strict=False)
        }

        def moved(operand: Operand, maker: int | None, value: Value) -> Operand:
            offset = placed.get((maker, value.number)) if maker is not None else None
            if offset is None:
                return operand
            return replace(operand, region=Region.RESULT, number=0, offset=offset)

        calls = []
        for each in self._needed(self._makers.values()):
            call = self._line.calls[each.number]
            makers = (*each.makers, *[each.number] * (len(call.operands) - call.given))
            operands = map(moved, call.operands, makers, each.makes)
            calls.append(replace(call, operands=tuple(operands)))
        result = Operand(Region.RESULT, 0, 0, "uint8", (offsets[-1],))
        return Line(tuple(calls), result, _arena(calls), offsets[-1], self._line.constants)

    def over(self) -> Line:
        """What goes on from the features."""
        calls = []
        for each in self._needed(c.number for c in self._calls if c.kind is Kind.CHANGING):
            call = self._line.calls[each.number]
            operands = [
                _argument(operand, self.features[value.number].number)
                if each.kind is Kind.CHANGING and value.number in self.features
                else operand
                for operand, value in zip(call.operands, each.reads, strict=False)
            ]
            calls.append(replace(call, operands=(*operands, *call.operands[call.given :])))
        return replace(self._line, calls=tuple(calls), arena_bytes=_arena(calls))

    def _needed(self, numbers: Iterable[int]) -> list[Followed]:
        """Some calls and those that make what they read, in order; features are not made."""
        wanted, found = [*numbers], set[int]()
        while wanted:
            number = wanted.pop()
            if number in found:
                continue
            found.add(number)
            each = self._calls[number]
            wanted += [
                maker
                for value, maker in zip(each.reads, each.makers, strict=True)
                if maker is not None
                and not (each.kind is Kind.CHANGING and value.number in self.features)
            ]
        return [self._calls[number] for number in sorted(found)]


def _argument(operand: Operand, number: int) -> Operand:
    return replace(operand, region=Region.ARGUMENT, number=number, offset=0)


def _arena(calls: Iterable[Call]) -> int:
    ends = [
        each.offset + bytes_of(each)
        for call in calls
        for each in call.operands
        if each.region is Region.ARENA
    ]
    return offsets_of([max(ends, default=0)])[-1]
