"""Losses on class scores: cross-entropy, and negative log-likelihood."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from odtc.core.errors import ModelError, UsageError
from odtc.core.ir.place import Place
from odtc.core.options.arguments import plainly_made
from odtc.core.specs import Classes, TensorSpec
from odtc.frontend.losses.loss import (
    COUNTED,
    MEAN,
    SUM,
    Label,
    Loss,
    parts_of,
    require_choice,
    require_factors,
    require_float,
)

if TYPE_CHECKING:
    from tvm import relax

# Class numbers fit 32 bits, and mobile GPUs emulate 64-bit integers.
CLASS_DTYPE = "int32"


@plainly_made
@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Cross-entropy of logits, as in `torch.nn.functional.cross_entropy`.

    The mean is weighted: the sum of the losses divided by the sum of the labels' class weights, or,
    with soft labels, by the number of labels. If all labels are ignored, the loss and its gradient
    are 0; PyTorch returns nan, which would destroy the parameters.

    Args:
        label_smoothing: fraction of each label that is spread over all classes, in [0, 1].
        ignore_index: label that is ignored in the loss; none by default.
        weight: weight of each class.
        axis: dimension of the logits along which the classes lie; labels have the other dimensions.
        soft_labels: whether labels are class probabilities, float and of the logits' shape.
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "cross-entropy"
    closing: ClassVar[tuple[str, ...]] = ("Softmax", "LogSoftmax")
    label_smoothing: float = 0.0
    ignore_index: int | None = None
    weight: tuple[float, ...] | None = None
    axis: int = 1
    soft_labels: bool = False
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.label_smoothing <= 1.0:
            raise UsageError(f"label_smoothing {self.label_smoothing} is outside [0, 1]")
        if self.soft_labels and self.ignore_index is not None:
            raise UsageError("ignore_index needs class numbers; soft labels have none")
        require_factors("weight", self.weight)
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def label(self, output: TensorSpec, place: Place | None = None) -> Label:
        """Class numbers of the output's shape without the class axis, or soft labels of all of it.

        Raises:
            ModelError: the output has another rank or dtype, or other classes than `weight`.
        """
        classes = classes_of(self, output, place)
        if self.soft_labels:
            return Label(output.shape, place=place)
        return label_of(output, classes, place)

    def parts(self) -> str:
        """See `Loss.parts`."""
        if self.soft_labels:
            return parts_of(self.reduction)
        return _parts(self.reduction, self.weight, self.ignore_index)

    def divisor(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> "relax.Expr":
        """See `Loss.divisor`."""
        from odtc.frontend.losses.class_scores import labels_of, labels_weight
        from odtc.frontend.losses.elements import number

        if self.soft_labels:
            return number(labels_of(output, self.axis))
        return labels_weight(builder, output, label, self)

    def emit(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> tuple["relax.Expr", "relax.Expr"]:
        """See `Loss.emit`."""
        from odtc.frontend.losses.class_scores import soft_cross_entropy, weighted_likelihood

        if self.soft_labels:
            return soft_cross_entropy(builder, output, label, self)
        return weighted_likelihood(
            builder, output, label, self, smoothing=self.label_smoothing, normalize=True
        )


@plainly_made
@dataclass(frozen=True)
class NLL(Loss):
    """Negative log-likelihood of log-probabilities, as in `torch.nn.functional.nll_loss`.

    The mean, and a batch in which all labels are ignored, are treated as in `CrossEntropy`.

    Args:
        ignore_index: label that is ignored in the loss; none by default.
        weight: weight of each class.
        axis: dimension of the output along which the classes lie; labels have the other dimensions.
        reduction: `mean` or `sum`.

    Raises:
        UsageError: a value is outside its range.
    """

    name: ClassVar[str] = "nll"
    ignore_index: int | None = None
    weight: tuple[float, ...] | None = None
    axis: int = 1
    reduction: str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        require_factors("weight", self.weight)
        require_choice("reduction", self.reduction, (MEAN, SUM))

    def label(self, output: TensorSpec, place: Place | None = None) -> Label:
        """Class numbers of the output's shape without the class axis.

        Raises:
            ModelError: the output has another rank or dtype, or other classes than `weight`.
        """
        classes = classes_of(self, output, place)
        return label_of(output, classes, place)

    def parts(self) -> str:
        """See `Loss.parts`."""
        return _parts(self.reduction, self.weight, self.ignore_index)

    def divisor(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> "relax.Expr":
        """See `Loss.divisor`."""
        from odtc.frontend.losses.class_scores import labels_weight

        return labels_weight(builder, output, label, self)

    def emit(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> tuple["relax.Expr", "relax.Expr"]:
        """See `Loss.emit`."""
        from odtc.frontend.losses.class_scores import weighted_likelihood

        return weighted_likelihood(builder, output, label, self, smoothing=0.0, normalize=False)


def _parts(reduction: str, weight: tuple[float, ...] | None, ignored: int | None) -> str:
    """A mean is over what the labels weigh, which differs from one part of a batch to the next."""
    weighs = reduction == MEAN and (weight is not None or ignored is not None)
    return COUNTED if weighs else parts_of(reduction)


def classes_of(loss: CrossEntropy | NLL, output: TensorSpec, place: Place | None) -> Classes:
    """The classes of an output along the axis of a loss.

    Args:
        loss: on class scores.
        output: the scores.
        place: where the samples lie in it; along axis 0 where nothing shows it.

    Raises:
        ModelError: the output is no float32 tensor with that axis, the samples lie along it, or the
            loss has weights for another number of classes.
    """
    require_float(loss.name, output, rank=2)
    rank, batch = len(output.shape), place.axis if place else 0
    others = [axis for axis in range(rank) if axis != batch]
    if not -rank <= loss.axis < rank or loss.axis % rank == batch:
        raise ModelError(
            f"{loss.name} along axis {loss.axis} does not fit {output}: axis {batch} is the batch",
            where=f"output {output.name}",
            hint=f"give the axis of the classes, one of {', '.join(map(str, others))}: "
            f"{loss.name}{{axis={others[-1] - rank}}} for the last one; or the axis of the "
            f"samples, if it is another: --batch-axis {output.name}=AXIS, or INPUT=AXIS",
        )
    count = output.shape[loss.axis]
    if loss.weight is not None and len(loss.weight) != count:
        raise ModelError(
            f"{loss.name} has {len(loss.weight)} class weights; {output} has {count} classes",
            where=f"output {output.name}",
            hint="give one for each class",
        )
    return Classes(count, loss.axis % rank, loss.ignore_index)


def label_of(output: TensorSpec, classes: Classes, place: Place | None) -> Label:
    """Class numbers of the scores' shape without the axis of the classes.

    They are `[batch]` where nothing else is left but ones.
    """
    shape, axis = output.shape, classes.axis
    rest = shape[:axis] + shape[axis + 1 :]
    inside = place and place.at(place.axis - (axis < place.axis))
    if all(size == 1 for size in rest[1:]) and (inside is None or inside.axis == 0):
        rest = rest[:1]
    return Label(rest, CLASS_DTYPE, classes, inside)
