"""Metrics of a validation: each a sum over samples, and a number that follows from it.

A sum has the same value however the samples are cut into batches, so that the last batch counts as
its samples do. What a metric cannot be a sum of, a function of the user's computes from all outputs
and labels at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from odtc.core.errors import UsageError
from odtc.core.options.checked_options import (
    check_options,
    count,
    format_choice,
    make_choice,
    options_of,
)

# What a metric measures: class numbers, yes or no by a logit, or numbers of the output's shape.
CLASSES, YES_NO = "class numbers", "0 or 1 of logits, as of the loss bce-with-logits"
NUMBERS = "numbers of the output's shape"
LOSS = "loss"


@dataclass(frozen=True)
class Metric(ABC):
    """A metric.

    Attributes:
        name: in text.
        larger_is_better: whether it is.
        labels: what it needs.
    """

    name: ClassVar[str]
    larger_is_better: ClassVar[bool] = True
    labels: ClassVar[tuple[str, ...]] = (CLASSES, YES_NO)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def key(self) -> str:
        """Its name in a history, behind `val_`."""
        return self.name.replace("-", "_")

    def __str__(self) -> str:
        return format_choice(
            self.name, {name: getattr(self, name) for name in options_of(type(self))}
        )

    @abstractmethod
    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """What is added up.

        Args:
            scores: [labels, classes] where labels are class numbers; else of the labels' shape.
            labels: those that are not ignored.
        """

    @abstractmethod
    def value(self, sums: np.ndarray) -> float:
        """The metric of all that was added up."""


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of labels whose class has the largest score; of two classes, whose logit is right.

    Labels of `bce-with-logits` are of the one class above a half, and logits above 0. Of what other
    losses compare with numbers, nothing says above which value it is a class.
    """

    name: ClassVar[str] = "accuracy"

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        predicted, wanted = _predicted(scores, labels)
        return np.array([(predicted == wanted).sum(), wanted.size])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        return _share(sums)


@dataclass(frozen=True)
class TopK(Metric):
    """The share of labels whose class has one of the `k` largest scores."""

    name: ClassVar[str] = "top-k"
    labels: ClassVar[tuple[str, ...]] = (CLASSES,)
    k: int = count(5)

    @property
    def key(self) -> str:
        """Its name in a history, behind `val_`."""
        return f"top_{self.k}"

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        own = scores[np.arange(len(labels)), labels][:, None]
        # Of equal scores the first classes come first, as with argmax.
        before = (scores > own) | ((scores == own) & (np.arange(scores.shape[1]) < labels[:, None]))
        return np.array([(before.sum(axis=1) < self.k).sum(), len(labels)])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        return _share(sums)


@dataclass(frozen=True)
class MeanSquaredError(Metric):
    """The mean of the squares of the differences."""

    name: ClassVar[str] = "mse"
    larger_is_better: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = (NUMBERS,)

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        return np.array([((scores - labels) ** 2).sum(), labels.size])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        return _share(sums)


@dataclass(frozen=True)
class MeanAbsoluteError(Metric):
    """The mean of the distances."""

    name: ClassVar[str] = "mae"
    larger_is_better: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = (NUMBERS,)

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        return np.array([np.abs(scores - labels).sum(), labels.size])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        return _share(sums)


@dataclass(frozen=True)
class R2(Metric):
    """The coefficient of determination, of all numbers of the output together."""

    name: ClassVar[str] = "r2"
    labels: ClassVar[tuple[str, ...]] = (NUMBERS,)

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        # Long doubles: the variance is a difference of two of these.
        y = labels.astype(np.longdouble)
        return np.array([((scores - y) ** 2).sum(), y.sum(), (y**2).sum(), y.size])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        squares, total, of_squares, number = sums
        spread = of_squares - total**2 / number
        return float(1 - squares / spread) if spread > 0 else float("nan")


@dataclass(frozen=True)
class _ByClass(Metric):
    """Right and wrong answers of each class."""

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """True positives, false positives and false negatives of each class.

        Labels that are numbers have one class, that above a half.
        """
        predicted, wanted = _predicted(scores, labels)
        is_classes = labels.dtype.kind in "iu"
        classes, first = (scores.shape[1], 0) if is_classes else (2, 1)
        right = predicted == wanted
        of_each = wanted[right], predicted[~right], wanted[~right]
        return np.array([np.bincount(each, minlength=classes)[first:] for each in of_each])

    def value(self, sums: np.ndarray) -> float:
        """The mean over the classes that occur."""
        occurring = sums[:, sums.sum(axis=0) > 0]
        return float(np.mean(self.of_class(*occurring))) if occurring.size else float("nan")

    @abstractmethod
    def of_class(self, right: Any, wrongly: Any, missed: Any) -> Any:
        """The metric of classes."""


@dataclass(frozen=True)
class F1(_ByClass):
    """The mean over classes of the harmonic mean of precision and recall (macro F1)."""

    name: ClassVar[str] = "f1"

    def of_class(self, right: Any, wrongly: Any, missed: Any) -> Any:
        """See `_ByClass.of_class`."""
        return 2 * right / (2 * right + wrongly + missed)


@dataclass(frozen=True)
class IoU(_ByClass):
    """The mean over classes of intersection over union (mean IoU, the Jaccard index)."""

    name: ClassVar[str] = "iou"

    def of_class(self, right: Any, wrongly: Any, missed: Any) -> Any:
        """See `_ByClass.of_class`."""
        return right / (right + wrongly + missed)


@dataclass(frozen=True)
class Perplexity(Metric):
    """The exponential of the mean negative log-likelihood of the labels, of logits."""

    name: ClassVar[str] = "perplexity"
    larger_is_better: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = (CLASSES,)

    def sums(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `Metric.sums`."""
        shifted = scores - scores.max(axis=1, keepdims=True)
        logs = shifted[np.arange(len(labels)), labels] - np.log(np.exp(shifted).sum(axis=1))
        return np.array([-logs.sum(), len(labels)])

    def value(self, sums: np.ndarray) -> float:
        """See `Metric.value`."""
        with np.errstate(over="ignore"):
            return float(np.exp(_share(sums)))


METRICS: Mapping[str, type[Metric]] = {
    each.name: each
    for each in (*(Accuracy, TopK, MeanSquaredError, MeanAbsoluteError, R2, F1, IoU, Perplexity),)
}
# What other libraries call them.
_CALLED = {
    "acc": "accuracy",
    "categorical-accuracy": "accuracy",
    "jaccard": "iou",
    "mean-absolute-error": "mae",
    "mean-squared-error": "mse",
    "r2-score": "r2",
    "sparse-categorical-accuracy": "accuracy",
    "top5": "top-k{k=5}",
}


@dataclass(frozen=True)
class Function:
    """A metric that a function of the user's computes, from all outputs and labels at once.

    Attributes:
        function: of the outputs and the labels, as `Trainer.evaluate` and the labels' file have
            them.
    """

    function: Callable[[np.ndarray, np.ndarray], float]

    @property
    def key(self) -> str:
        """Its name in a history, behind `val_`."""
        return getattr(self.function, "__name__", type(self.function).__name__)


def parse_metric(text: str) -> Metric:
    """Reads `accuracy` or `top-k{k=3}`.

    Raises:
        UsageError: the text is malformed, or names a metric or an option that is none.
    """
    name = text.partition("{")[0].strip()
    if other := _CALLED.get(name.replace("_", "-").lower()):
        raise UsageError(f"unknown metric {name!r}", hint=f"did you mean {other}?")
    return make_choice("metric", text, METRICS, "accuracy or top-k{k=5}")


def metrics_of(given: Any) -> tuple[Metric | Function, ...]:
    """The metrics that a user gives: names, functions, or a list of these.

    Raises:
        UsageError: one is neither, or two have one name.
    """
    each = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
    found = tuple(_metric(one) for one in each)
    keys = [one.key for one in found]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UsageError(
            f"the metric {twice} is given twice",
            where="metrics",
            hint="give it once, and functions names of their own",
        )
    if LOSS in keys:
        raise UsageError(
            "a metric is called loss, as what is measured without one",
            where="metrics",
            hint="give the function another name",
        )
    return found


def _metric(given: Any) -> Metric | Function:
    if isinstance(given, Metric | Function):
        return given
    if isinstance(given, str):
        return parse_metric(given)
    if callable(given) and not isinstance(given, type):
        return Function(cast(Any, given))
    raise UsageError(
        f"a metric is a {type(given).__name__}, which is neither a name nor a function",
        where="metrics",
        hint=f"give one of {', '.join(METRICS)}, or a function of outputs and labels",
    )


def _predicted(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and wanted class numbers."""
    if labels.dtype.kind in "iu":
        return scores.argmax(axis=1), labels
    return (scores > 0).astype(np.int64).reshape(-1), (labels > 0.5).astype(np.int64).reshape(-1)


def _share(sums: np.ndarray) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")
