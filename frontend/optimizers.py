"""Optimizers: a description that knows no TVM, and the in-place update kernel made from it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, as `torch.optim.SGD` does it.

    `v = momentum * v + (g + weight_decay * w)` and `w = w - lr * v`; the learning rate is an
    argument of each step. With momentum 0 there is no state.

    Args:
        momentum: in [0, 1).
        weight_decay: factor of the L2 penalty, at least 0.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum < 1.0:
            raise UsageError(f"momentum {self.momentum} is outside [0, 1)")
        if not 0.0 <= self.weight_decay < float("inf"):
            raise UsageError(f"weight_decay {self.weight_decay} is not a number of at least 0")

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the state tensors that each parameter has, each of the parameter's shape."""
        return ("momentum",) if self.momentum else ()

    def update_kernel(self, shape: tuple[int, ...]) -> "PrimFunc":
        """The update of one parameter: `(w, *slots, g, lr)`, the first ones changed in place."""
        from odtc.frontend.update_kernels import sgd_kernel

        return sgd_kernel(shape, self.momentum, self.weight_decay)


Optimizer = SGD
OPTIMIZERS = {SGD.name: SGD}
