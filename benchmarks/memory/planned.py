"""Bytes of plans."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedBytes:
    """Bytes of a step of odtc.

    Attributes:
        arena: of all tensors of the step, its loss among them.
        lower_bound: of the arena, for this order of calls.
        parameters: trained, frozen, and running statistics.
        optimizer: its state.
        fed: inputs, labels and what else a step is given; no part of the total.
    """

    arena: int
    lower_bound: int
    parameters: int
    optimizer: int
    fed: int

    @property
    def total(self) -> int:
        """Bytes that a step needs."""
        return self.arena + self.parameters + self.optimizer


@dataclass(frozen=True)
class TvmPlan:
    """Bytes that TVM's planner gives a step: storage, and what the step returns.

    Attributes:
        new_parameters: of a step that makes new parameters.
        alone: of odtc's own step, whose updates are in place.
    """

    new_parameters: int
    alone: int
