"""Operators that can run in several forms, and the costs of the layouts that these need.

A form reads and writes each tensor in one layout. What a reader wants in another layout than that
in which a tensor is made is copied, once for all readers that want it so. A plan takes a form of
each operator; which tensors are copied follows from that.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Tensor:
    """A value that operators make and read.

    Attributes:
        name: of it.
        layouts: that it may have; the first is that of tensors that no operator makes.
        seconds: of a copy into another layout.
        nbytes: of such a copy, with its padding.
        written: seconds that it takes to have it in memory at all, where it is made in the first
            layout and copied: readers that want it so compute it as they read it.
    """

    name: str
    layouts: tuple[str, ...]
    seconds: float = 0.0
    nbytes: int = 0
    written: float = 0.0

    def seconds_of(self, made: str, there: Collection[str]) -> float:
        """Seconds of having it in these layouts, among them the one in which it is made."""
        copies = len(there) - 1
        is_written = copies > 0 and made == self.layouts[0]
        return copies * self.seconds + is_written * self.written

    def nbytes_of(self, there: Collection[str]) -> int:
        """Bytes of it in these layouts that are not in memory if the graph stays as it is."""
        is_unwritten = self.written > 0
        is_as_it_is = list(there) == [self.layouts[0]]
        return 0 if is_as_it_is else (len(there) - 1 + is_unwritten) * self.nbytes


@dataclass(frozen=True)
class OperatorForm:
    """A way to run an operator.

    Attributes:
        name: of the form, such as `NHWC`.
        reads: the layout of each tensor that the operator reads.
        writes: the layout of each that it makes.
        seconds: that it takes.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class OperatorNode:
    """One call.

    Attributes:
        name: of what it makes.
        reads: numbers of the tensors that it reads.
        writes: numbers of those that it makes.
        forms: at least one; the first is that of the graph as it is.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    forms: tuple[OperatorForm, ...]


@dataclass(frozen=True)
class LayoutProblem:
    """Tensors, and the operators that make and read them.

    Attributes:
        tensors: by number; each is made by one operator at most.
        operators: in the order in which they run.
        price: seconds that a byte is worth.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[OperatorNode, ...]
    price: float = 0.0

    @cached_property
    def makers(self) -> dict[int, tuple[int, int]]:
        """The operator that makes a tensor, and the place among its results."""
        return {
            tensor: (number, place)
            for number, operator in enumerate(self.operators)
            for place, tensor in enumerate(operator.writes)
        }

    @cached_property
    def readers(self) -> dict[int, list[tuple[int, int]]]:
        """The operators that read a tensor, each with the place among what it reads."""
        found: dict[int, list[tuple[int, int]]] = {
            number: [] for number in range(len(self.tensors))
        }
        for number, operator in enumerate(self.operators):
            for place, tensor in enumerate(operator.reads):
                found[tensor].append((number, place))
        return found


@dataclass(frozen=True)
class LayoutConversion:
    """A tensor that is copied into another layout.

    Attributes:
        tensor: its number.
        layout: of the copy.
    """

    tensor: int
    layout: str


@dataclass(frozen=True)
class LayoutSolution:
    """A plan.

    Attributes:
        forms: number of the form of each operator.
        seconds: of all operators and copies.
        nbytes: of copies, and of what would not be in memory without them.
        cost: the seconds, and the price of the bytes.
        bound: no plan costs less.
    """

    forms: tuple[int, ...]
    seconds: float
    nbytes: int
    cost: float
    bound: float

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is better, but for rounding."""
        return self.cost <= self.bound + 1e-9 * max(abs(self.cost), 1e-9)


def made_in(problem: LayoutProblem, forms: Sequence[int], tensor: int) -> str:
    """The layout in which a tensor is made."""
    if tensor not in problem.makers:
        return problem.tensors[tensor].layouts[0]
    operator, place = problem.makers[tensor]
    return problem.operators[operator].forms[forms[operator]].writes[place]


def copies_of(problem: LayoutProblem, forms: Sequence[int]) -> Iterator[LayoutConversion]:
    """The copies that a plan makes."""
    for number in range(len(problem.tensors)):
        made = made_in(problem, forms, number)
        wanted = {
            problem.operators[operator].forms[forms[operator]].reads[place]
            for operator, place in problem.readers[number]
        }
        yield from (LayoutConversion(number, layout) for layout in sorted(wanted - {made}))


def native_of(problem: LayoutProblem) -> tuple[int, ...]:
    """The plan of the graph as it is."""
    return (0,) * len(problem.operators)
