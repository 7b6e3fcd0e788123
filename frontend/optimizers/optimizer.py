"""Base of all optimizers: their options, state and rule over elements.

    direction, new state = rule(weight, gradient, old state)
    weight = weight - learning rate * direction

A rule is written once, in plain arithmetic. Its operands are elements: expressions of a kernel when
a step is compiled. What is the same for all elements of an update, such as a bias correction, is
computed once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from odtc.core.options.checked_options import check_options

# Something that takes part in arithmetic with numbers and its like.
Value = Any
Values = Mapping[str, Value]


class Maths(Protocol):
    """The functions of a rule beside arithmetic."""

    def sqrt(self, value: Value) -> Value:
        """The square root."""
        ...

    def sign(self, value: Value) -> Value:
        """-1, 0 or 1."""
        ...

    def maximum(self, value: Value, least: float) -> Value:
        """The larger of a value and a number."""
        ...

    def select(self, condition: Value, then: float, otherwise: float) -> Value:
        """One of two numbers."""
        ...

    def one_minus_power(self, base: float, exponent: Value) -> Value:
        """`1 - base ** exponent` for a base in [0, 1), without cancellation."""
        ...


@dataclass(frozen=True)
class Element:
    """Inputs of a rule.

    Attributes:
        w: the weight.
        g: its gradient: the mean of the micro-batches, clipped.
        state: the old state, by slot.
        once: what the optimizer's `once` returned.
        maths: functions beside arithmetic.
    """

    w: Value
    g: Value
    state: Values
    once: Values
    maths: Maths


@dataclass(frozen=True)
class Change:
    """Results of a rule.

    Attributes:
        direction: what the learning rate multiplies, before it is taken from the weight.
        state: the new state, by slot.
    """

    direction: Value
    state: Values


@dataclass(frozen=True)
class Optimizer(ABC):
    """An update rule; its options are its fields.

    Attributes:
        name: as the user writes it.
        layerwise: whether the direction is scaled to the norm of the parameter, as LAMB does.

    Raises:
        UsageError: an option is outside its bound.
    """

    name: ClassVar[str]
    layerwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def is_plain(self) -> bool:
        """Whether the direction is the gradient as it is."""
        return False

    @property
    @abstractmethod
    def slots(self) -> dict[str, float]:
        """State tensors that each parameter has, each of its shape, and the value they start at."""

    @abstractmethod
    def once(self, updates: Value, maths: Maths) -> Values:
        """Scalars that all elements share.

        Args:
            updates: number of updates before this one, a float32 scalar.
            maths: functions beside arithmetic.
        """

    @abstractmethod
    def rule(self, at: Element) -> Change:
        """The update of one element."""


def with_decay(g: Value, decay: float, w: Value) -> Value:
    """`g + decay * w`: the gradient of an L2 penalty, or a decay of the weight beside it."""
    return g + decay * w if decay else g
