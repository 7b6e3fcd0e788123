"""The interface between a trainer, which checks and counts, and what computes its steps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from odtc.core.artifact.manifest import Evaluation, StepPlan
from odtc.core.specs import Argument
from odtc.runtime_rpc.feed.batches import Fed
from odtc.runtime_rpc.memory.plans import Available
from odtc.runtime_rpc.profile.launches import Launches

if TYPE_CHECKING:
    from odtc.runtime_rpc.engines.over_features import OverFeatures

# The arrays of a step, and its learning rate.
Ready = tuple[Fed, float]
# Tensors that stand in the place of weights, by the name of the weight.
Instead = Mapping[str, Argument]


class Engine(Protocol):
    """Has the tensors of a compiled step, and computes with them; a trainer has one.

    All of its methods raise a DeviceError where the device fails. They are called by one thread at
    a time, with what the trainer has checked.
    """

    @property
    def plan(self) -> StepPlan:
        """By which the last step ran, or the next one will."""
        ...

    @property
    def over_features(self) -> "OverFeatures | None":
        """The step in two parts, where frozen layers come first and the engine can do it."""
        ...

    def use_threads(self, count: int | None, cores: str | None) -> None:
        """Sets the threads of steps that the calling thread takes from now on.

        Args:
            count: of threads; None leaves the engine its own number of them.
            cores: as `Session.use_threads` has it.

        Raises:
            UsageError: there is no such core.
        """
        ...

    def at_once(self, steps: int) -> int:
        """How many steps of so many one call can take."""
        ...

    def take(
        self, steps: Sequence[Ready], first: int, following: Callable[[], Fed | None]
    ) -> list[float]:
        """Takes steps, as many as `at_once` allows; where one fails none of them is counted.

        Args:
            steps: what each is fed.
            first: number of steps before them.
            following: what the step after them is fed; None where there is none.

        Returns:
            The loss of each, finite or not.
        """
        ...

    def evaluate(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], instead: Instead
    ) -> np.ndarray:
        """An output of one micro-batch, or of as many samples as the evaluation is of.

        Args:
            evaluation: of the manifest, or a smaller one of these.
            arrays: for the inputs that it needs, of their dtypes, and shapes with so many samples.
            instead: the averages of parameters, or nothing.
        """
        ...

    def read(self, items: Iterable[Argument]) -> dict[Argument, np.ndarray]:
        """Copies of tensors as they are now."""
        ...

    def write(self, values: Mapping[Argument, np.ndarray]) -> None:
        """Gives tensors other elements, of their shapes and dtypes."""
        ...

    def restart(self, steps: int) -> None:
        """Says that what was written is all that a step leaves behind, after so many steps."""
        ...

    def set_budget(self, budget: int) -> None:
        """Takes steps from now on by the fastest plan that fits.

        Raises:
            BudgetError: none does; nothing is changed.
        """
        ...

    def follow(self, available: Available, reserve: int) -> None:
        """Chooses the plan before each step; see `Trainer.follow_memory`."""
        ...

    def clocked(self) -> AbstractContextManager[dict[str, Any]]:
        """A block in which each call of a kernel is timed.

        Yields:
            What is filled in when the block ends: see `CallClock.stop`.
        """
        ...

    def launches(self) -> Launches:
        """What kernels launch on a GPU; nothing where the step is not on one that says so."""
        ...

    def close(self) -> None:
        """Gives all memory back; nothing else may be called then."""
        ...
