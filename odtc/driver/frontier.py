"""`Frontier`: what a step can be made to take in memory, and what that costs in time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odtc.core.notebook import html_table
from odtc.core.typed import typed

# Name of the plans in which no tensor waits in storage.
WITHOUT = "without offload"


@dataclass(frozen=True)
class Point:
    """One way to run a step.

    Attributes:
        arena_bytes: of the arena.
        time: of the calls, by a model of the target, over that of the step as it is.
        calls: that run, for each micro-batch.
        repeated: of them those that run again.
        micro_batches: that make a step.
        accumulator_bytes: of what their gradients are added up in, beside the arena.
        stored_bytes: of the file in which tensors wait.
        half: whether what the backward pass reads of the forward pass is stored as float16.
        direct: whether no convolution is in Winograd's form, which takes workspaces.
    """

    arena_bytes: int
    time: float
    calls: int
    repeated: int
    micro_batches: int = 1
    accumulator_bytes: int = 0
    stored_bytes: int = 0
    half: bool = False
    direct: bool = False

    @property
    def budget_bytes(self) -> int:
        """A budget of so many bytes is met by this."""
        return self.arena_bytes + self.accumulator_bytes


@dataclass(frozen=True)
class Least:
    """A lower bound of the time of plans within a budget.

    Attributes:
        budget_bytes: of the arena.
        time: as of `Point`.
    """

    budget_bytes: int
    time: float


@dataclass(frozen=True)
class AtLength:
    """What a step takes at one of several lengths.

    Attributes:
        length: of it.
        tokens: places of a batch: its samples times the length.
        arena_bytes: of the step as it is.
        least_bytes: of the smallest plan.
        seconds: of the step as it is, by a model of the target.
    """

    length: int
    tokens: int
    arena_bytes: int
    least_bytes: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """By a model of the target."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Frontier:
    """All ways of which none is both slower and larger than another one.

    Attributes:
        points: the fastest first: the step as it is.
        lower_bound_bytes: no budget below it can be met: what the largest call reads and writes.
        parameter_bytes: of weights and running statistics, beside the arena.
        optimizer_bytes: of state and averages, beside the arena and the accumulators of points.
        refusal: why the step cannot run as micro-batches; empty where it can.
        strategies: for comparison, what known ways reach alone for the step as a whole, by name:
            peaks in place of arenas, which are never smaller. Where tensors may wait in storage,
            `WITHOUT` is what is reached without that.
        least: no plan of the step as a whole, in single precision, is faster.
        measured_calls: of the step as it is, those whose times were measured; a model of the target
            says the others.
        threads: for how many all of this is; None where the target has none, as a GPU.
        by_threads: bytes alive at once in the step as it is, by the number of threads that it is
            compiled for: each has workspaces of its own. The arena is about as large.
        lengths: what the step takes at each, the longest first, which all else is of; none where it
            has one size.
        modelled_for: the GPU whose rates the model of times has; empty where the target is a CPU.
    """

    points: tuple[Point, ...]
    lower_bound_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    refusal: str = ""
    strategies: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    least: tuple[Least, ...] = ()
    measured_calls: int = 0
    threads: int | None = None
    by_threads: Mapping[int, int] = field(default_factory=dict)
    lengths: tuple[AtLength, ...] = ()
    modelled_for: str = ""

    def _repr_html_(self) -> str:
        """A table of the points, as `odtc plan` prints them."""
        head = ("budget, bytes", "time", "micro-batches", "calls again")
        rows = [
            (
                f"{each.budget_bytes:,}",
                f"{each.time:.3f}",
                str(each.micro_batches),
                f"{each.repeated} of {each.calls}",
            )
            for each in self.points
        ]
        beside = self.parameter_bytes + self.optimizer_bytes
        return html_table(rows, head, f"beside the budget: {beside:,} bytes of weights and state")


def frontier_of(data: Mapping[str, Any]) -> Frontier:
    """A frontier out of what `odtc plan --json` printed; keys of other versions are left out.

    Raises:
        ValueError: something lacks, or is of another type.
    """
    return typed(Frontier, data)
