"""The shape and dtype of a tensor, the one description that all layers share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """A named tensor of static shape.

    Attributes:
        name: the ONNX name.
        shape: sizes of the dimensions; `()` is a scalar.
        dtype: a numpy dtype name, such as `float32`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.size * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class Role(StrEnum):
    """What an argument of the training step is to it."""

    INPUT = "input"
    LABEL = "label"
    LEARNING_RATE = "learning-rate"
    STEP = "step"
    PARAMETER = "parameter"
    FROZEN = "frozen"
    STATISTIC = "statistic"
    STATE = "state"
    AVERAGE = "average"


# What an ONNX initializer can be to the step: it is stored in the artifact and exported again.
WEIGHT_ROLES = frozenset({Role.PARAMETER, Role.FROZEN, Role.STATISTIC})


@dataclass(frozen=True)
class Classes:
    """The integers that a tensor of class numbers may hold.

    Attributes:
        count: number of classes; they are counted from 0.
        axis: dimension of the scores along which the classes lie.
        ignored: one more value, which takes no part in the loss; None where there is none.
    """

    count: int
    axis: int = 1
    ignored: int | None = None


@dataclass(frozen=True)
class Argument:
    """One argument of the training step.

    Attributes:
        role: what it is to the step. The role `step` is the number of steps taken before this one,
            from which bias corrections and random masks follow.
        spec: its name, shape and dtype. A state's name is `slot/parameter`, that of the moving
            average of a parameter `ema/parameter`.
        classes: what it may hold, where it holds class numbers.
        initial: what all elements of a state start at. An average starts at its parameter.
    """

    role: Role
    spec: TensorSpec
    classes: Classes | None = None
    initial: float = field(default=0.0, kw_only=True)


def of_role(arguments: Sequence[Argument], *roles: Role) -> list[Argument]:
    """The arguments of these roles, in order."""
    return [item for item in arguments if item.role in roles]
