"""Losses on class scores in Relax: value and derivative in closed form.

The scores are taken as [before, classes] or [before, classes, after], whatever their rank. With
`t` the weights that a label puts on the classes, cross-entropy is `-sum(t * log softmax(x))`, and
its derivative `softmax(x) * sum(t) - t`.
"""

import math
from typing import Protocol

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.rows.cross_entropy import cross_entropy, cross_entropy_slope
from odtc.frontend.losses.elements import number, total
from odtc.frontend.losses.loss import MEAN

Result = tuple[relax.Expr, relax.Expr]


class OnClasses(Protocol):
    """The options of a loss on class scores; `CrossEntropy` says what each of these is."""

    @property
    def axis(self) -> int: ...  # noqa: D102
    @property
    def weight(self) -> tuple[float, ...] | None: ...  # noqa: D102
    @property
    def reduction(self) -> str: ...  # noqa: D102


class OnClassNumbers(OnClasses, Protocol):
    """Those of a loss whose labels are class numbers."""

    @property
    def ignore_index(self) -> int | None: ...  # noqa: D102


class OnProbabilities(OnClasses, Protocol):
    """Those of a loss whose labels are probabilities."""

    @property
    def label_smoothing(self) -> float: ...  # noqa: D102


def weighted_likelihood(
    builder: relax.BlockBuilder,
    output: relax.Var,
    label: relax.Var | None,
    loss: OnClassNumbers,
    *,
    smoothing: float,
    normalize: bool,
) -> Result:
    """Cross-entropy or NLL for class numbers.

    Args:
        builder: with an open dataflow block.
        output: the scores.
        label: class numbers, or `loss.ignore_index`.
        loss: its axis, weights, ignored label and reduction.
        smoothing: share of each label that is spread over all classes.
        normalize: scores are logits; else they are log-probabilities.
    """
    emit = builder.emit
    shape = [int(size) for size in output.ty.shape]
    folded = _folded(shape, loss.axis)
    classes, rest = folded[1], [folded[0], 1, *folded[2:]]
    scores = emit(R.reshape(output, folded))
    numbers = emit(R.reshape(label, [folded[0], *folded[2:]]))
    valid, factor = _label_factors(builder, numbers, loss.ignore_index, loss.weight)
    share = emit(_share(builder, factor, math.prod(rest), loss.reduction))
    if normalize and not smoothing and len(folded) == 2:
        value, slope = _of_rows(builder, scores, numbers, factor, share)
        return value, R.reshape(slope, shape)
    weights = (
        np.ones(classes, np.float32) if loss.weight is None else np.array(loss.weight, np.float32)
    )
    along = [1, classes, *(1 for _ in folded[2:])]
    logs = emit(R.nn.log_softmax(scores, axis=1)) if normalize else scores

    # Bound to no variable: each of its readers computes it for itself, and none stores it.
    is_label = R.equal(
        R.reshape(numbers, rest), relax.const(np.arange(classes, dtype=np.int32).reshape(along))
    )
    # Not a product: a class that is masked by -inf would make it nan.
    chosen = R.sum(R.where(is_label, logs, number(0.0)), [1])

    def per_label(value: relax.Expr, by: relax.Expr | None) -> relax.Expr:
        return value if by is None else R.multiply(value, by)

    loss_sum = total(builder, per_label(R.multiply(chosen, number(smoothing - 1.0)), factor))
    target = _spread(R.where(is_label, number(1.0 - smoothing), number(0.0)), factor, rest)
    mass = _spread(number(1.0 - smoothing), factor, rest)
    if smoothing:
        even = relax.const((weights * np.float32(smoothing / classes)).reshape(along))
        spread = R.sum(R.multiply(logs, even), [1])
        loss_sum = R.subtract(loss_sum, total(builder, per_label(spread, valid)))
        target = R.add(target, _spread(even, valid, rest))
        mass = R.add(mass, _spread(number(smoothing * weights.mean()), valid, rest))
    slope = R.subtract(R.multiply(R.exp(logs), mass), target) if normalize else R.negative(target)
    return R.multiply(loss_sum, share), R.reshape(R.multiply(slope, share), shape)


def _of_rows(
    builder: relax.BlockBuilder,
    scores: relax.Var,
    numbers: relax.Var,
    factor: relax.Var | None,
    share: relax.Var,
) -> Result:
    """Cross-entropy where classes lie side by side and each label is one: no probability is stored.

    Args:
        builder: with an open dataflow block.
        scores: logits [labels, classes].
        numbers: of the classes, [labels].
        factor: of each label, or ones.
        share: what the sum is multiplied by.
    """
    emit = builder.emit
    found = emit(cross_entropy(scores, numbers))
    chosen, top, level = (emit(relax.TupleGetItem(found, slot)) for slot in range(3))
    loss = R.negative(chosen)
    if factor is None:
        factors = R.broadcast_to(share, chosen.ty.shape)
    else:
        loss, factors = R.multiply(loss, factor), R.multiply(factor, share)
    slope = cross_entropy_slope(scores, numbers, top, level, emit(factors))
    return R.multiply(total(builder, loss), share), slope


def soft_cross_entropy(
    builder: relax.BlockBuilder,
    output: relax.Var,
    label: relax.Var | None,
    loss: OnProbabilities,
) -> Result:
    """Cross-entropy for labels that are probabilities."""
    emit = builder.emit
    shape = [int(size) for size in output.ty.shape]
    folded = _folded(shape, loss.axis)
    along = [1, folded[1], *(1 for _ in folded[2:])]
    logs = emit(R.nn.log_softmax(R.reshape(output, folded), axis=1))
    target = R.reshape(label, folded)
    if loss.label_smoothing:
        kept = R.multiply(target, number(1.0 - loss.label_smoothing))
        target = R.add(kept, number(loss.label_smoothing / folded[1]))
    if loss.weight is not None:
        target = R.multiply(target, relax.const(np.array(loss.weight, np.float32).reshape(along)))
    target = emit(target)
    mass = emit(R.sum(target, [1], keepdims=True))
    share = number(1.0 / labels_of(output, loss.axis) if loss.reduction == MEAN else 1.0)
    value = total(builder, R.sum(R.multiply(logs, target), [1]))
    slope = R.subtract(R.multiply(R.exp(logs), mass), target)
    derivative = R.reshape(R.multiply(slope, share), shape)
    return R.negative(R.multiply(value, share)), derivative


def labels_of(output: relax.Expr, axis: int) -> int:
    """How many labels go with class scores."""
    shape = [int(size) for size in output.ty.shape]
    return math.prod(shape) // shape[axis]


def labels_weight(
    builder: relax.BlockBuilder,
    output: relax.Var,
    label: relax.Var | None,
    loss: OnClassNumbers,
) -> relax.Expr:
    """What class numbers weigh together: how many are not ignored, or their classes' weights."""
    _, factor = _label_factors(builder, label, loss.ignore_index, loss.weight)
    return number(labels_of(output, loss.axis)) if factor is None else total(builder, factor)


def _folded(shape: list[int], axis: int) -> list[int]:
    """The shape as [before, classes] or [before, classes, after]."""
    axis %= len(shape)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return [before, shape[axis]] if after == 1 else [before, shape[axis], after]


def _label_factors(
    builder: relax.BlockBuilder,
    numbers: relax.Var,
    ignored: int | None,
    weight: tuple[float, ...] | None,
) -> tuple[relax.Var | None, relax.Var | None]:
    """For each label 1 or, where it is ignored, 0; and that times the weight of its class.

    None stands for ones.
    """
    valid = factor = None
    if ignored is not None:
        kept = builder.emit(R.not_equal(numbers, relax.const(ignored, "int32")))
        valid = factor = builder.emit(R.astype(kept, "float32"))
    if weight is not None:
        flat = builder.emit(R.flatten(numbers))
        # Clipped, for the ignored label may lie outside.
        taken = R.take(relax.const(np.array(weight, np.float32)), flat, axis=0, mode="clip")
        factor = builder.emit(R.reshape(taken, numbers.ty.shape))
        factor = factor if valid is None else builder.emit(R.multiply(factor, valid))
    return valid, factor


def _share(
    builder: relax.BlockBuilder, factor: relax.Var | None, labels: int, reduction: str
) -> relax.Expr:
    """The factor of the sum: one over the sum of the factors, or 0 where that is 0."""
    if reduction != MEAN:
        return number(1.0)
    if factor is None:
        return number(1.0 / labels)
    count = total(builder, factor)
    some = builder.emit(R.greater(count, number(0.0)))
    safe = R.where(some, count, number(1.0))
    return R.where(some, R.divide(number(1.0), safe), number(0.0))


def _spread(value: relax.Expr, factor: relax.Var | None, rest: list[int]) -> relax.Expr:
    """A value for each class times a factor for each label."""
    return value if factor is None else R.multiply(value, R.reshape(factor, rest))
