"""A metric of a validation, added up over parts of the samples."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odtc.core.errors import UsageError
from odtc.core.ir.place import Place, join
from odtc.core.options.kinds import shown
from odtc.core.specs import Classes
from odtc.runtime_rpc.loop.measured.metrics import Function, Metric


@dataclass
class MetricSum:
    """A metric, added up over parts of the samples.

    Attributes:
        metric: that is measured.
        classes: what the labels may hold; None where they are numbers.
        places: where the samples lie in outputs and in labels.
    """

    metric: Metric | Function
    classes: Classes | None
    places: tuple[Place | None, Place | None]
    _sums: Any = 0
    _all: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Adds some samples."""
        if isinstance(self.metric, Function):
            self._all.append((scores, labels))
            return
        if self.classes:
            scores = np.moveaxis(scores, self.classes.axis, -1)
            scores, labels = scores.reshape(-1, scores.shape[-1]), labels.reshape(-1)
            kept = (
                labels != self.classes.ignored if self.classes.ignored is not None else slice(None)
            )
            scores, labels = scores[kept], labels[kept]
        else:
            labels = labels.astype(np.float64)
        self._sums = self._sums + self.metric.sums(scores.astype(np.float64), labels)

    def value(self) -> float:
        """The metric of all samples."""
        if isinstance(self.metric, Function):
            parts = zip(zip(*self._all, strict=True), self.places, strict=True)
            scores, labels = (join(each, place or Place(0)) for each, place in parts)
            return _number(self.metric, _called(self.metric, scores, labels))
        return self.metric.value(self._sums)


def _called(metric: Function, scores: np.ndarray, labels: np.ndarray) -> Any:
    """What a function of the user's gives.

    Raises:
        UsageError: it fails.
    """
    try:
        return metric.function(scores, labels)
    except Exception as error:
        raise UsageError(
            f"the metric {metric.key} fails: {type(error).__name__}: {error}",
            where="metrics",
            hint=f"it gets all outputs, {shown(scores)}, and all labels, {shown(labels)}, and has "
            "to give a number",
        ) from error


def _number(metric: Function, value: Any) -> float:
    """What a function of the user's gives, as a row of a history holds it.

    Raises:
        UsageError: it is no number.
    """
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the metric {metric.key} gives {shown(value)}, not a number",
            where="metrics",
            hint="let it give one number; for several, give several functions",
        ) from error
