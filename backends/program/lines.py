"""Functions as lists of calls, whose operands are places in memory: plain data, without TVM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np


class Region(IntEnum):
    """The memory that a tensor lies in; the numbers are those of the file."""

    ARGUMENT = 0
    CONSTANT = 1
    ARENA = 2
    RESULT = 3


@dataclass(frozen=True)
class Operand:
    """A tensor that a kernel is called with.

    Attributes:
        region: that it lies in.
        number: of the argument, or of the constant; 0 in the other regions.
        offset: in the region, in bytes.
        dtype: a numpy dtype name.
        shape: of it, dense.
    """

    region: Region
    number: int
    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call of a kernel.

    Attributes:
        kernel: that is called.
        operands: it is called with.
        given: how many of them, the first ones, it reads; it writes the others, which are its
            results and workspace.
        changed: the numbers of those that it reads and writes.
    """

    kernel: str
    operands: tuple[Operand, ...]
    given: int = 0
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Line:
    """A function as its calls.

    Attributes:
        calls: in the order in which they run.
        result: the tensor that it returns.
        arena_bytes: that its tensors lie in.
        result_bytes: of what is allocated for the result; 0 where that lies elsewhere.
        constants: arrays that operands are.
    """

    calls: tuple[Call, ...]
    result: Operand
    arena_bytes: int
    result_bytes: int
    constants: tuple[np.ndarray, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class Lines:
    """The functions of a module.

    Attributes:
        of: each, by its name.
        refused: what in one of them is no straight line; nothing if all of them are.
    """

    of: Mapping[str, Line]
    refused: str = ""

    @property
    def kernels(self) -> frozenset[str]:
        """Names of those that are called."""
        return frozenset(call.kernel for line in self.of.values() for call in line.calls)
