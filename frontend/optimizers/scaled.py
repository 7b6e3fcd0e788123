"""RMSProp and Adagrad: gradients over the root of their mean, or their summed, square."""

from dataclasses import dataclass
from typing import ClassVar

from odtc.core.options.arguments import plainly_made
from odtc.core.options.checked_options import fraction, not_negative, positive, switch
from odtc.frontend.optimizers.optimizer import (
    Change,
    Element,
    Maths,
    Optimizer,
    Value,
    Values,
    with_decay,
)


@plainly_made
@dataclass(frozen=True, kw_only=True)
class RMSProp(Optimizer):
    """RMSprop, as in `torch.optim.RMSprop`: Tieleman and Hinton (2012).

    Args:
        alpha: decay rate of the running mean of the squared gradient, in [0, 1).
        eps: term added to the denominator, above 0.
        weight_decay: coefficient of the L2 penalty, at least 0.
        momentum: momentum factor of the scaled gradient, in [0, 1).
        centered: whether to divide by the root of the variance instead (Graves 2013).
    """

    name: ClassVar[str] = "rmsprop"
    alpha: float = fraction(0.99)
    eps: float = positive(1e-8)
    weight_decay: float = not_negative(0.0)
    momentum: float = fraction(0.0)
    centered: bool = switch(False)

    @property
    def slots(self) -> dict[str, float]:
        """The mean square, and where they are used the mean and the momentum."""
        used = {"square": True, "mean": self.centered, "momentum": self.momentum}
        return {slot: 0.0 for slot, wanted in used.items() if wanted}

    def once(self, updates: Value, maths: Maths) -> Values:
        """Nothing."""
        return {}

    def rule(self, at: Element) -> Change:
        """`w = w - lr * g / (sqrt(mean of g * g) + eps)`."""
        g = with_decay(at.g, self.weight_decay, at.w)
        square = self.alpha * at.state["square"] + (1 - self.alpha) * g * g
        state, spread = {"square": square}, square
        if self.centered:
            mean = self.alpha * at.state["mean"] + (1 - self.alpha) * g
            state["mean"] = mean
            # Rounding may take the variance of a steady gradient below zero.
            spread = at.maths.maximum(square - mean * mean, 0.0)
        direction = g / (at.maths.sqrt(spread) + self.eps)
        if self.momentum:
            direction = self.momentum * at.state["momentum"] + direction
            state["momentum"] = direction
        return Change(direction, state)


@plainly_made
@dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """Adagrad, as in `torch.optim.Adagrad`: Duchi et al. (2011).

    Args:
        lr_decay: learning rate decay, at least 0: the rate is divided by `1 + lr_decay * n` after n
            updates.
        weight_decay: coefficient of the L2 penalty, at least 0.
        initial_accumulator: initial value of the sum of squares, at least 0.
        eps: term added to the denominator, above 0.
    """

    name: ClassVar[str] = "adagrad"
    lr_decay: float = not_negative(0.0)
    weight_decay: float = not_negative(0.0)
    initial_accumulator: float = not_negative(0.0)
    eps: float = positive(1e-10)

    @property
    def slots(self) -> dict[str, float]:
        """The sum of squares."""
        return {"square": self.initial_accumulator}

    def once(self, updates: Value, maths: Maths) -> Values:
        """The decay of the learning rate."""
        return {"decay": 1.0 / (1.0 + self.lr_decay * updates)} if self.lr_decay else {}

    def rule(self, at: Element) -> Change:
        """`w = w - lr * g / (sqrt(sum of g * g) + eps)`."""
        g = with_decay(at.g, self.weight_decay, at.w)
        square = at.state["square"] + g * g
        direction = g / (at.maths.sqrt(square) + self.eps)
        return Change(at.once["decay"] * direction if at.once else direction, {"square": square})
