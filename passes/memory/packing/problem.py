"""The packing problem and its solution: buffers with their lifespans, and their offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Tensors start on a cache line, and on what any vector load wants.
TENSOR_ALIGNMENT = 64
# Times, sizes and alignments lie below it, so that sums of millions of them stay within 64 bits.
LARGEST = 2**40


@dataclass(frozen=True)
class Buffer:
    """One buffer, which needs its bytes from one time to another.

    Attributes:
        id: its name, unlike all others.
        lower: the first time at which it is alive.
        upper: the first time at which it no longer is.
        size: in bytes; 0 takes no room.
        alignment: its offset is a multiple of this.
        host: id of a buffer that it is a fixed part of, as a view is.
        at: where it starts within its host, in bytes.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = TENSOR_ALIGNMENT
    host: str | None = None
    at: int = 0


class Fault(NamedTuple):
    """A fault of a buffer: the field, and what is wrong with its value."""

    field: str
    what: str


def fault_of(buffer: Buffer) -> Fault | None:
    """The first bound that a buffer breaks by itself, or None."""
    checks = (
        ("lower", 0 <= buffer.lower < LARGEST, f"{buffer.lower} is not within 0 to 2**40"),
        ("upper", buffer.upper < LARGEST, f"{buffer.upper} is not below 2**40"),
        ("upper", buffer.lower < buffer.upper, f"{buffer.upper} is not above lower"),
        ("size", 0 <= buffer.size < LARGEST, f"{buffer.size} is not within 0 to 2**40"),
        ("alignment", buffer.alignment > 0, f"{buffer.alignment} is not above 0"),
        ("alignment", buffer.alignment < LARGEST, f"{buffer.alignment} is not below 2**40"),
        ("at", 0 <= buffer.at < LARGEST, f"{buffer.at} is not within 0 to 2**40"),
    )
    return next((Fault(field, what) for field, holds, what in checks if not holds), None)


@dataclass(frozen=True)
class PackingProblem:
    """Buffers to be packed.

    Attributes:
        buffers: their ids are unlike, and hosts are among them.
        capacity: bytes that are enough: no smaller height is searched for. None asks for the
            smallest.

    Raises:
        ValueError: a buffer breaks a bound, or two have one id.
    """

    buffers: Sequence[Buffer]
    capacity: int | None = None

    def __post_init__(self):
        seen = set()
        for buffer in self.buffers:
            fault = fault_of(buffer)
            if fault:
                raise ValueError(f"buffer {buffer.id}: {fault.field} {fault.what}")
            if buffer.id in seen:
                raise ValueError(f"buffer {buffer.id} appears twice")
            seen.add(buffer.id)


@dataclass(frozen=True)
class PackingSolution:
    """Where buffers lie.

    Attributes:
        offsets: by id, in bytes.
        height: bytes of the arena: the highest end of a buffer, rounded up to what divides all
            alignments.
        lower_bound: no plan of a smaller height exists.
        proven_optimal: whether the height is the lower bound.
    """

    offsets: Mapping[str, int]
    height: int
    lower_bound: int

    @property
    def proven_optimal(self) -> bool:
        """Whether no plan is lower."""
        return self.height == self.lower_bound
