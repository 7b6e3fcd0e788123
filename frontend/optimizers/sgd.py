"""Stochastic gradient descent and Lion: optimizers with one momentum."""

from dataclasses import dataclass
from typing import ClassVar

from odtc.core.errors import UsageError
from odtc.core.options.arguments import plainly_made
from odtc.core.options.checked_options import fraction, not_negative, switch
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
class SGD(Optimizer):
    """Stochastic gradient descent, as in `torch.optim.SGD`.

    Without momentum there is no optimizer state.

    Args:
        momentum: momentum factor, in [0, 1).
        dampening: dampening of the momentum, in [0, 1): the share of each gradient but the first
            that is left out of it.
        weight_decay: coefficient of the L2 penalty, at least 0.
        nesterov: whether to use Nesterov momentum (Sutskever et al. 2013).

    Raises:
        UsageError: a value is outside its range, or `nesterov` is used without momentum or with
            dampening.
    """

    name: ClassVar[str] = "sgd"
    momentum: float = fraction(0.0)
    weight_decay: float = not_negative(0.0)
    dampening: float = fraction(0.0)
    nesterov: bool = switch(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (not self.momentum or self.dampening):
            raise UsageError(
                f"nesterov with momentum {self.momentum} and dampening {self.dampening}",
                hint="it needs a momentum above 0, and no dampening",
            )

    @property
    def is_plain(self) -> bool:
        """Without momentum and weight decay."""
        return not (self.momentum or self.weight_decay)

    @property
    def slots(self) -> dict[str, float]:
        """The momentum, if there is one."""
        return {"momentum": 0.0} if self.momentum else {}

    def once(self, updates: Value, maths: Maths) -> Values:
        """The share of the gradient in the momentum."""
        if not self.dampening:
            return {}
        return {"share": maths.select(updates == 0, 1.0, 1.0 - self.dampening)}

    def rule(self, at: Element) -> Change:
        """`v = momentum * v + g`, `w = w - lr * v`."""
        g = with_decay(at.g, self.weight_decay, at.w)
        if not self.momentum:
            return Change(g, {})
        share = at.once["share"] * g if self.dampening else g
        v = self.momentum * at.state["momentum"] + share
        return Change(g + self.momentum * v if self.nesterov else v, {"momentum": v})


@plainly_made
@dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """Lion: Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2.

    Args:
        beta1: weight of the momentum in the update, in [0, 1).
        beta2: decay rate of the momentum, in [0, 1).
        weight_decay: coefficient of the decoupled weight decay, at least 0.
    """

    name: ClassVar[str] = "lion"
    beta1: float = fraction(0.9)
    beta2: float = fraction(0.99)
    weight_decay: float = not_negative(0.0)

    @property
    def slots(self) -> dict[str, float]:
        """The momentum."""
        return {"momentum": 0.0}

    def once(self, updates: Value, maths: Maths) -> Values:
        """Nothing."""
        return {}

    def rule(self, at: Element) -> Change:
        """`w = w - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w)`."""
        m = at.state["momentum"]
        sign = at.maths.sign(self.beta1 * m + (1 - self.beta1) * at.g)
        moved = self.beta2 * m + (1 - self.beta2) * at.g
        return Change(with_decay(sign, self.weight_decay, at.w), {"momentum": moved})
