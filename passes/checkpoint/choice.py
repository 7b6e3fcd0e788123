"""What is alive at a moment of a step, as the linear program of that moment chooses it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """What is alive at a moment.

    Attributes:
        task: that begins at the moment.
        kept: tensors that are alive.
        seconds: that what is made again takes at least, in the unit of the problem.
        fetched: tensors that wait in a storage.
        again: tasks that run again after the moment.
    """

    task: int
    kept: frozenset[int]
    seconds: float
    fetched: frozenset[int] = frozenset()
    again: frozenset[int] = frozenset()
