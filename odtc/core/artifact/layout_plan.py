"""The record of the layouts that the images of a training step have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayoutOperator:
    """An operator that had a choice.

    Attributes:
        name: of what it makes.
        layout: that it runs in.
        seconds: that it takes by a model of the target, by layout.
    """

    name: str
    layout: str
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class LayoutCopy:
    """A tensor that is copied into another layout.

    Attributes:
        tensor: its name.
        layout: of the copy.
        nbytes: of it.
        seconds: that it takes by the model.
    """

    tensor: str
    layout: str
    nbytes: int
    seconds: float


@dataclass(frozen=True)
class LayoutPlan:
    """Which layouts were chosen.

    Attributes:
        seconds: of operators with a choice, and of copies, by a model of the target.
        bound: no plan costs less by that model; 0 where the plan was asked for.
        native_seconds: what they would take with the layout of ONNX alone.
        nbytes: of copies, and of what would not be in memory with the layout of ONNX alone.
        price: seconds that such a byte is worth: the plan costs its seconds and its bytes.
        operators: those that had a choice.
        copies: that are left.
    """

    seconds: float
    bound: float
    native_seconds: float
    nbytes: int
    price: float
    operators: tuple[LayoutOperator, ...]
    copies: tuple[LayoutCopy, ...]

    @property
    def is_proven(self) -> bool:
        """Whether no plan is better by the model, but for rounding."""
        return self.seconds + self.price * self.nbytes <= self.bound * (1 + 1e-9)


def read_layout_plan(data: Mapping[str, Any]) -> LayoutPlan:
    """The record, from what JSON says of it.

    Raises:
        KeyError, TypeError, ValueError: that is none.
    """
    return LayoutPlan(
        float(data["seconds"]),
        float(data["bound"]),
        float(data["native_seconds"]),
        int(data["nbytes"]),
        float(data["price"]),
        tuple(LayoutOperator(**each) for each in data["operators"]),
        tuple(LayoutCopy(**each) for each in data["copies"]),
    )
