"""The shape and dtype of a tensor, the one description that all layers share."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from odtc.core.ir.place import Place
from odtc.core.options.arguments import plainly_made, read_fields
from odtc.core.options.kinds import TEXT, WHOLE, several

_FIELDS = {
    "name": TEXT.with_hint("give the name of a tensor"),
    "shape": several(WHOLE, "tuple of sizes", "give a size for each dimension, such as (4, 3)"),
    "dtype": TEXT.with_hint("give the name of a dtype, such as 'float32'"),
}
_INTEGERS = {int}


@plainly_made
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

    def __post_init__(self) -> None:
        types = type(self.name), type(self.shape), type(self.dtype)
        # There are many of them: kinds are asked only where something may be wrong.
        if types != (str, tuple, str) or not {*map(type, self.shape)} <= _INTEGERS:
            read_fields(self, _FIELDS)

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
    """The role of an argument of the training step."""

    INPUT = "input"
    LABEL = "label"
    LEARNING_RATE = "learning-rate"
    STEP = "step"
    PARAMETER = "parameter"
    FROZEN = "frozen"
    STATISTIC = "statistic"
    STATE = "state"
    AVERAGE = "average"
    STORAGE = "storage"
    FEATURES = "features"


# Name of the argument in which tensors wait that the arena has no room for.
STORAGE = "storage"
# Slot of the states that gradients are added up in.
ACCUMULATOR = "accumulator"
# What an ONNX initializer can be to the step: it is stored in the artifact and exported again.
WEIGHT_ROLES = frozenset({Role.PARAMETER, Role.FROZEN, Role.STATISTIC})
# What a caller feeds.
FED_ROLES = frozenset({Role.INPUT, Role.LABEL})


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
class Block:
    """Neighbouring indices along one axis of a tensor.

    Attributes:
        axis: the axis, from 0.
        start: the first index.
        size: how many indices.
    """

    axis: int
    start: int
    size: int

    def __str__(self) -> str:
        return f"channels {self.start} to {self.start + self.size - 1} (axis {self.axis})"

    def shape_in(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the block in a tensor of that shape."""
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])


@dataclass(frozen=True)
class Argument:
    """One argument of the training step.

    Attributes:
        role: what it is to the step. The role `step` is the number of steps taken before this one,
            from which bias corrections and random masks follow. What is in the `storage` is of one
            call, and lies in a file. `features` are what a step is fed in place of inputs.
        spec: its name, shape and dtype. A state's name is `slot/parameter`, that of the moving
            average of a parameter `ema/parameter`.
        classes: what it may hold, where it holds class numbers.
        block: the part of a parameter that is trained, where that is not all of it.
        initial: what all elements of a state start at. An average starts at its parameter.
        place: where the samples lie in an input or label; None where it is one for all of them.
        rows: what an input's values address is so many, counted from either end; 0 where they are
            no indices.
    """

    role: Role
    spec: TensorSpec
    classes: Classes | None = None
    block: Block | None = None
    initial: float = field(default=0.0, kw_only=True)
    place: Place | None = field(default=None, kw_only=True)
    rows: int = field(default=0, kw_only=True)

    @property
    def is_accumulator(self) -> bool:
        """Whether gradients are added up in it."""
        return self.role is Role.STATE and self.spec.name.startswith(f"{ACCUMULATOR}/")

    @property
    def trained_shape(self) -> tuple[int, ...]:
        """Shape of a parameter's gradient and of its state."""
        return self.block.shape_in(self.spec.shape) if self.block else self.spec.shape


def batch_of(arguments: Sequence[Argument]) -> int:
    """Samples in the first argument that holds some; 1 where none does."""
    counts = [item.place.count(item.spec.shape) for item in arguments if item.place]
    return counts[0] if counts else 1


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or where it is taken the first of `NAME_2`, `NAME_3` and so on that is not."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def of_role(arguments: Sequence[Argument], *roles: Role) -> list[Argument]:
    """The arguments of these roles, in order."""
    return [item for item in arguments if item.role in roles]
