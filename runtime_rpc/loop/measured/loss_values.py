"""The value of a loss on samples that are not trained, from the outputs that a device evaluates.

It is that of all samples as one batch, whatever the sizes of the batches that they came in: each
loss is a sum over a weight, and both are added up in float64. So the last batch, which may be
partial, counts as its samples do. A loss that is a sum is told as that of one batch of the step.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

# From an output, its labels and the loss's options to the sum, and the weight that a mean divides
# it by.
Value = Callable[[np.ndarray, np.ndarray, Mapping[str, str]], tuple[float, float]]


def _log_softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    shifted = scores - scores.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def factors(text: str | None, count: int) -> np.ndarray:
    """Factors of so many classes, as the text of a loss has them; ones where it has none."""
    return np.ones(count) if text is None else np.array([float(part) for part in text.split(":")])


def _cross_entropy(
    scores: np.ndarray, labels: np.ndarray, options: Mapping[str, str]
) -> tuple[float, float]:
    axis = int(options.get("axis", 1))
    logs = _log_softmax(scores, axis)
    if options.get("soft-labels") == "true":
        return _of_soft_labels(np.moveaxis(logs, axis, -1), np.moveaxis(labels, axis, -1), options)
    return _likelihood(logs, labels, options)


def _likelihood(
    logs: np.ndarray, labels: np.ndarray, options: Mapping[str, str]
) -> tuple[float, float]:
    """Of log-probabilities and class numbers: what `weighted_likelihood` is in a step."""
    logs = np.moveaxis(logs, int(options.get("axis", 1)), -1)
    count, smoothing = logs.shape[-1], float(options.get("label-smoothing", 0))
    logs, numbers = logs.reshape(-1, count), labels.reshape(-1)
    if "ignore-index" in options:
        kept = numbers != int(options["ignore-index"])
        logs, numbers = logs[kept], numbers[kept]
    weights = factors(options.get("weight"), count)
    chosen = logs[np.arange(len(numbers)), numbers]
    total = -(1 - smoothing) * (chosen * weights[numbers]).sum()
    if smoothing:
        total -= smoothing / count * (logs * weights).sum()
    return float(total), float(weights[numbers].sum())


def _of_soft_labels(
    logs: np.ndarray, labels: np.ndarray, options: Mapping[str, str]
) -> tuple[float, float]:
    count, smoothing = logs.shape[-1], float(options.get("label-smoothing", 0))
    target = labels * (1 - smoothing) + smoothing / count
    total = -(logs * target * factors(options.get("weight"), count)).sum()
    return float(total), logs.size / count


def _elements(
    error: Callable[[np.ndarray, np.ndarray, Mapping[str, str]], np.ndarray],
    reduction: str = "mean",
) -> Value:
    """A loss of pairs of elements."""

    def value(
        scores: np.ndarray, labels: np.ndarray, options: Mapping[str, str]
    ) -> tuple[float, float]:
        by_batch = options.get("reduction", reduction) == "batchmean"
        weight = scores.shape[0] if by_batch else scores.size
        return float(error(scores, labels, options).sum()), float(weight)

    return value


def _huber(bound: float, error: np.ndarray) -> np.ndarray:
    inner = np.clip(error, -bound, bound)
    return inner * (error - inner / 2)


def _smooth_l1(x: np.ndarray, y: np.ndarray, options: Mapping[str, str]) -> np.ndarray:
    beta = float(options.get("beta", 1))
    return _huber(beta, x - y) / beta


def _binary(x: np.ndarray, y: np.ndarray, options: Mapping[str, str]) -> np.ndarray:
    factor = 1 + (factors(options.get("pos-weight"), 1) - 1) * y
    return (1 - y) * x + factor * (np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0))


def _divergence(x: np.ndarray, y: np.ndarray, options: Mapping[str, str]) -> np.ndarray:
    if options.get("log-target") == "true":
        return np.exp(y) * (y - x)
    return y * (np.log(np.where(y > 0, y, 1)) - x)


# By the names that losses have in text.
VALUES: Mapping[str, Value] = {
    "cross-entropy": _cross_entropy,
    "nll": _likelihood,
    "bce-with-logits": _elements(_binary),
    "mse": _elements(lambda x, y, _: (x - y) ** 2),
    "l1": _elements(lambda x, y, _: np.abs(x - y)),
    "huber": _elements(lambda x, y, options: _huber(float(options.get("delta", 1)), x - y)),
    "smooth-l1": _elements(_smooth_l1),
    "kl-div": _elements(_divergence, "batchmean"),
    # What the model computes of each batch: their mean.
    "in-model": lambda scores, _, __: (float(scores.sum()), float(scores.size)),
}


@dataclass
class LossSum:
    """The value of a loss, added up over parts of the samples.

    Attributes:
        name: of the loss.
        options: as its text has them.
        batch: samples of a step.
    """

    name: str
    options: Mapping[str, str]
    batch: int
    total: float = 0.0
    weight: float = 0.0
    samples: int = 0

    def add(self, scores: np.ndarray, labels: np.ndarray, samples: int) -> None:
        """Adds the loss of so many samples."""
        value, weight = VALUES[self.name](scores.astype(np.float64), _numbers(labels), self.options)
        self.total += value
        self.weight += weight
        self.samples += samples

    def value(self) -> float:
        """The loss of all of them; NaN where no label counts, as the mean of nothing."""
        if self.options.get("reduction") == "sum":
            return self.total * self.batch / self.samples
        return self.total / self.weight if self.weight else math.nan


def _numbers(labels: np.ndarray) -> np.ndarray:
    """Class numbers as they are, other labels in float64."""
    return labels if labels.dtype.kind in "iu" else labels.astype(np.float64)
