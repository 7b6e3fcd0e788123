"""A choice of the tensors that are alive at a moment of a step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StageChoice:
    """A choice of the tensors that are alive at a moment.

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
