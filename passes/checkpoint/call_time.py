"""Times of kernels' calls, as given to the planner that decides what is recomputed."""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx


@dataclass(frozen=True)
class CallTime:
    """The time of a call.

    Attributes:
        seconds: of one core; only proportions to those of other calls matter.
        is_measured: whether a call of such a kernel was measured.
    """

    seconds: float
    is_measured: bool = False


# Of a kernel without blocks.
Cost = Callable[[tirx.PrimFunc], CallTime]
