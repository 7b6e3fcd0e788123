"""The fates of a tensor of a state dict in a file."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class Fate(StrEnum):
    """The fate of a tensor of a state dict in the file."""

    EQUAL = "equal"
    ROUNDED = "equal up to rounding"
    TIED = "tied"
    RENAMED = "renamed"
    RESHAPED = "reshaped"
    OTHER_TYPE = "other type"
    MERGED = "merged"
    TORN = "torn apart"
    FOLDED = "folded"
    DIFFERENT = "different"
    MISSING = "missing"
    EXTRA = "extra"


# What the file trains otherwise than the module would, or does not have.
LOST = frozenset({Fate.MERGED, Fate.TORN, Fate.FOLDED, Fate.DIFFERENT, Fate.MISSING})


@dataclass(frozen=True)
class Match:
    """The fate of one tensor.

    Attributes:
        name: of the tensor in the state dict; of an extra one, in the file.
        fate: what became of it.
        tensor: the tensor of the file that it is, where there is one.
        detail: more about it, as text.
    """

    name: str
    fate: Fate
    tensor: str = ""
    detail: str = ""

    def __str__(self) -> str:
        became = f" -> {self.tensor}" if self.tensor and self.tensor != self.name else ""
        return f"{self.name}{became}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class Entry:
    """A float tensor of a state dict.

    Attributes:
        value: its elements.
        storage: where they lie in memory, where the reader knows: those of tied tensors are equal.
    """

    value: np.ndarray
    storage: object = None
