"""Losses that compare an output with a float label of its shape, element by element."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from odtc.core.errors import ModelError
from odtc.core.ir.place import Place
from odtc.core.options.arguments import plainly_made
from odtc.core.specs import TensorSpec
from odtc.frontend.losses.loss import (
    BATCH_MEAN,
    MEAN,
    SUM,
    Label,
    Loss,
    parts_of,
    require_choice,
    require_factors,
    require_float,
    require_positive,
)

if TYPE_CHECKING:
    from tvm import relax

    from odtc.frontend.losses.elements import Error


class ElementLoss(Loss):
    """A loss of pairs of elements, reduced to one number."""

    reduction: str

    @abstractmethod
    def error(self) -> "Error":
        """The loss of a pair of elements, and its derivative."""

    def label(self, output: TensorSpec, place: Place | None = None) -> Label:
        """Floats of the output's shape.

        Raises:
            ModelError: the output is no float32 tensor with a batch, or its mean is one over the
                batch, which is not its first dimension.
        """
        require_float(self.name, output)
        if self.reduction == BATCH_MEAN and place and place.axis:
            raise ModelError(
                f"{self.name} divides by the first dimension of {output}, and the batch is its "
                f"axis {place.axis}",
                where=f"output {output.name}",
                hint=f"take another mean, such as {self.name}{{reduction=mean}}",
            )
        return Label(output.shape, place=place)

    def parts(self) -> str:
        """See `Loss.parts`."""
        return parts_of(self.reduction)

    def divisor(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> "relax.Expr":
        """See `Loss.divisor`."""
        from odtc.frontend.losses.elements import count_of, number

        return number(count_of(output, self.reduction))

    def emit(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> tuple["relax.Expr", "relax.Expr"]:
        """See `Loss.emit`."""
        from odtc.frontend.losses.elements import reduced

        return reduced(builder, output, label, self.error(), self.reduction)


@plainly_made
@dataclass(frozen=True)
class MSE(ElementLoss):
    """Mean squared error, as in `torch.nn.functional.mse_loss`.

    Args:
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "mse"
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import squared_error

        return squared_error


@plainly_made
@dataclass(frozen=True)
class L1(ElementLoss):
    """Mean absolute error, as in `torch.nn.functional.l1_loss`; its derivative at 0 is 0.

    Args:
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "l1"
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import absolute_error

        return absolute_error


@plainly_made
@dataclass(frozen=True)
class Huber(ElementLoss):
    """Huber loss, as in `torch.nn.functional.huber_loss`: squared near 0, linear from `delta` on.

    Args:
        delta: value from which the loss is linear, above 0.
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "huber"
    delta: float = 1.0
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("delta", self.delta)
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import huber_error

        return huber_error(self.delta, 1.0)


@plainly_made
@dataclass(frozen=True)
class SmoothL1(ElementLoss):
    """Huber loss divided by `beta`, as in `torch.nn.functional.smooth_l1_loss`.

    Args:
        beta: value from which the loss is linear, above 0; at 0 it would be `L1`.
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "smooth-l1"
    beta: float = 1.0
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("beta", self.beta)
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import huber_error

        return huber_error(self.beta, 1.0 / self.beta)


@plainly_made
@dataclass(frozen=True)
class KLDiv(ElementLoss):
    """Kullback-Leibler divergence of log-probabilities, as in `torch.nn.functional.kl_div`.

    Args:
        log_target: whether labels are log-probabilities, too.
        reduction: `batchmean`, which is the divergence itself, `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "kl-div"
    log_target: bool = False
    reduction: str = BATCH_MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("reduction", self.reduction, (BATCH_MEAN, MEAN, SUM))

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import divergence, log_divergence

        return log_divergence if self.log_target else divergence


@plainly_made
@dataclass(frozen=True)
class BCEWithLogits(ElementLoss):
    """Binary cross-entropy of logits, as in PyTorch's `binary_cross_entropy_with_logits`.

    Args:
        pos_weight: weight of positive labels: one number, or one for each element of the output's
            last dimension.
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "bce-with-logits"
    closing: ClassVar[tuple[str, ...]] = ("Sigmoid",)
    pos_weight: tuple[float, ...] | None = None
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_factors("pos_weight", self.pos_weight)
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def label(self, output: TensorSpec, place: Place | None = None) -> Label:
        """Floats of the output's shape, usually 0 or 1.

        Raises:
            ModelError: the output is no float32 tensor, or `pos_weight` does not fit it.
        """
        require_float(self.name, output)
        count = 1 if self.pos_weight is None else len(self.pos_weight)
        if count not in (1, output.shape[-1]):
            raise ModelError(
                f"pos_weight has {count} numbers; the last dimension of {output} is "
                f"{output.shape[-1]}",
                where=f"output {output.name}",
                hint=f"give one number, or {output.shape[-1]}",
            )
        return Label(output.shape, place=place)

    def error(self) -> "Error":
        """See `ElementLoss.error`."""
        from odtc.frontend.losses.elements import binary_cross_entropy

        return binary_cross_entropy(self.pos_weight)
