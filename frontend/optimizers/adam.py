"""Adam and what was made of it: AdamW and LAMB."""

from dataclasses import dataclass
from typing import ClassVar

from odtc.core.options.arguments import plainly_made
from odtc.core.options.checked_options import fraction, not_negative, positive
from odtc.frontend.optimizers.optimizer import (
    Change,
    Element,
    Maths,
    Optimizer,
    Value,
    Values,
    with_decay,
)


@dataclass(frozen=True, kw_only=True)
class _OfMoments(Optimizer):
    """An optimizer that keeps a mean of the gradient and one of its square.

    Attributes:
        beta1: decay rate of the running mean of the gradient, in [0, 1).
        beta2: decay rate of the running mean of its square, in [0, 1).
        eps: term added to the denominator, above 0.
    """

    beta1: float = fraction(0.9)
    beta2: float = fraction(0.999)
    eps: float = positive(1e-8)

    @property
    def slots(self) -> dict[str, float]:
        """The two moments."""
        return {"mean": 0.0, "square": 0.0}

    def once(self, updates: Value, maths: Maths) -> Values:
        """Factors that take the bias towards zero out of the two moments."""
        return {
            "mean": 1.0 / maths.one_minus_power(self.beta1, updates + 1.0),
            "root": 1.0 / maths.sqrt(maths.one_minus_power(self.beta2, updates + 1.0)),
        }

    def _moved(self, g: Value, at: Element) -> Change:
        """The two moments, and the first over the root of the second, both without bias."""
        mean = self.beta1 * at.state["mean"] + (1 - self.beta1) * g
        square = self.beta2 * at.state["square"] + (1 - self.beta2) * g * g
        root = at.maths.sqrt(square) * at.once["root"] + self.eps
        return Change(at.once["mean"] * mean / root, {"mean": mean, "square": square})


@dataclass(frozen=True, kw_only=True)
class _Decoupled(_OfMoments):
    """One whose weight decay is beside the gradient, not in it."""

    weight_decay: float = not_negative(0.01)

    def rule(self, at: Element) -> Change:
        """`m / (sqrt(v) + eps) + weight_decay * w`."""
        change = self._moved(at.g, at)
        return Change(with_decay(change.direction, self.weight_decay, at.w), change.state)


@plainly_made
@dataclass(frozen=True, kw_only=True)
class Adam(_OfMoments):
    """Adam as in PyTorch: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).

    Args:
        beta1: decay rate of the running mean of the gradient, in [0, 1).
        beta2: decay rate of the running mean of its square, in [0, 1).
        eps: term added to the denominator, above 0.
        weight_decay: coefficient of the L2 penalty, at least 0.
    """

    name: ClassVar[str] = "adam"
    weight_decay: float = not_negative(0.0)

    def rule(self, at: Element) -> Change:
        """`w = w - lr * m / (sqrt(v) + eps)`, the decay within the gradient."""
        g = with_decay(at.g, self.weight_decay, at.w)
        return self._moved(g, at)


@plainly_made
@dataclass(frozen=True, kw_only=True)
class AdamW(_Decoupled):
    """AdamW as in PyTorch: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019).

    `w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w)`.

    Args:
        beta1: decay rate of the running mean of the gradient, in [0, 1).
        beta2: decay rate of the running mean of its square, in [0, 1).
        eps: term added to the denominator, above 0.
        weight_decay: coefficient of the decoupled weight decay, at least 0.
    """

    name: ClassVar[str] = "adamw"


@plainly_made
@dataclass(frozen=True, kw_only=True)
class LAMB(_Decoupled):
    """LAMB: You et al., "Large Batch Optimization for Deep Learning" (2020), algorithm 2.

    The update of AdamW, scaled to the norm of the parameter:
    `r = m / (sqrt(v) + eps) + weight_decay * w`, `w = w - lr * |w| / |r| * r`. If either norm is 0,
    the update is not scaled.

    Args:
        beta1: decay rate of the running mean of the gradient, in [0, 1).
        beta2: decay rate of the running mean of its square, in [0, 1).
        eps: term added to the denominator, above 0.
        weight_decay: coefficient of the decoupled weight decay, at least 0.
    """

    name: ClassVar[str] = "lamb"
    layerwise: ClassVar[bool] = True
    eps: float = positive(1e-6)
