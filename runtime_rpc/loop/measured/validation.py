"""Validation: the loss and metrics on samples that are not trained, where the step runs.

Outputs are evaluated there, a part of the samples at a time, as few bytes as that takes; what
follows from outputs and labels is computed here, so that it is the same of every device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.errors import DataError, UsageError
from odtc.core.ir.place import Place
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.source import Arrays, Source
from odtc.runtime_rpc.loop.measured.at_once import samples_at_once
from odtc.runtime_rpc.loop.measured.loss_values import LossSum
from odtc.runtime_rpc.loop.measured.metric_sum import MetricSum
from odtc.runtime_rpc.loop.measured.metrics import (
    CLASSES,
    LOSS,
    METRICS,
    NUMBERS,
    YES_NO,
    Function,
    Metric,
)
from odtc.runtime_rpc.loop.measured.terms import LossTerm, label_of, loss_terms
from odtc.runtime_rpc.loop.measured.unlabelled import validation_text
from odtc.runtime_rpc.loop.trained import Trained

_LOGITS = "bce-with-logits"


@dataclass(frozen=True)
class Validation:
    """What is measured on samples that are not trained.

    Attributes:
        source: of the samples.
        manifest: of the step.
        metrics: beside the loss.
        ema: whether moving averages of the weights take their place.
    """

    source: Source
    manifest: Manifest
    metrics: Sequence[Metric | Function] = ()
    ema: bool = False

    def __post_init__(self) -> None:
        for metric in self.metrics:
            self._check(metric)
        if self.is_whole and len(self.source) < self.manifest.micro_batch:
            name = self.evaluated[0].output.name
            raise DataError(
                f"the validation data holds {len(self.source)} samples; nothing shows where the "
                f"samples lie in {name}, so it is evaluated for batches of "
                f"{self.manifest.micro_batch}",
                where=self.source.where,
                hint=f"provide more, or compile with --batch-axis {name}=AXIS",
            )

    @property
    def note(self) -> str:
        """What of it is not as its user may think; empty where all is."""
        left = len(self.source) % self.manifest.micro_batch if self.is_whole else 0
        notes = []
        if left:
            notes.append(
                f"the last {left} of {len(self.source)} samples of the validation data are left "
                f"out: only whole batches of {self.manifest.micro_batch} can be evaluated"
            )
        if not self.has_loss:
            notes.append(
                f"no loss of the validation data is reported: {self.manifest.loss} is computed "
                "only in a training step"
            )
        return "; ".join(notes)

    @property
    def has_loss(self) -> bool:
        """Whether the loss can be told: a graph of its own is computed in a step alone."""
        return bool(self._terms)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return (*([LOSS] if self.has_loss else []), *(metric.key for metric in self.metrics))

    def larger_is_better(self, key: str) -> bool | None:
        """Which values of a key are the better ones; None where nobody knows."""
        if key == LOSS:
            return False
        metric = next(metric for metric in self.metrics if metric.key == key)
        return metric.larger_is_better if isinstance(metric, Metric) else None

    def measure(self, trainer: Trained) -> dict[str, float]:
        """The loss, as of all samples in one batch, and the metrics, by their names.

        They are NaN, and a warning says so, where no label counts.

        Raises:
            DataError: samples do not fit the step.
            DeviceError: the device failed.
        """
        losses = [LossSum(t.name, t.options, self.manifest.batch) for t in self._terms]
        metrics = [MetricSum(m, self._compared.classes, self._places) for m in self.metrics]
        for x, y in self.source.parts(self._part):
            samples = self._samples_in(x, y)
            if self.is_whole and samples < self._part:
                break
            scores = {
                each.output.name: trainer._evaluated(x, each.output.name, ema=self.ema)
                for each in self.evaluated
            }
            for term, total in zip(self._terms, losses, strict=True):
                labels = y[term.label.spec.name] if term.label else np.zeros(())
                total.add(scores[term.evaluation.output.name], labels, samples)
            for metric in metrics:
                metric.add(scores[self._main.output.name], y[self._compared.spec.name])
        found = {metric.metric.key: metric.value() for metric in metrics}
        if losses:
            if not all(each.weight for each in losses):
                warn_caller(validation_text(self.source.where))
            weights = (term.weight for term in self._terms)
            value = sum(w * each.value() for w, each in zip(weights, losses, strict=True))
            found = {LOSS: value, **found}
        return found

    @cached_property
    def _terms(self) -> tuple[LossTerm, ...]:
        return loss_terms(self.manifest)

    @cached_property
    def _main(self) -> Evaluation:
        """The output of the metrics: the first whose label holds class numbers, or the usual."""
        outputs = self.manifest.evaluations
        labels = [label_of(self.manifest, each) for each in outputs]
        classed = [e for e, label in zip(outputs, labels, strict=True) if label and label.classes]
        return (*classed, outputs[0])[0]

    @cached_property
    def _compared(self) -> Argument:
        label = label_of(self.manifest, self._main)
        if label is None:
            raise UsageError(
                f"the step has no label that {self._main.output.name} could be compared with",
                where="metrics",
                hint="leave the metrics out: the loss is in the model",
            )
        return label

    @property
    def _held(self) -> str:
        """What the labels of the metrics hold."""
        if self._compared.classes:
            return CLASSES
        losses = [term.name for term in self._terms if term.evaluation == self._main]
        return YES_NO if losses == [_LOGITS] else NUMBERS

    @property
    def _places(self) -> tuple[Place | None, Place | None]:
        return self._main.place, self._compared.place

    @cached_property
    def evaluated(self) -> tuple[Evaluation, ...]:
        """The outputs that are needed."""
        needed = [term.evaluation for term in self._terms]
        needed += [self._main] if self.metrics else []
        return tuple({each.output.name: each for each in needed}.values())

    @property
    def is_whole(self) -> bool:
        """Whether only whole batches can be evaluated."""
        return any(each.place is None for each in self.evaluated)

    @property
    def _part(self) -> int:
        if self.is_whole:
            return self.manifest.micro_batch
        return samples_at_once(self.manifest, self.evaluated)

    def _samples_in(self, x: Arrays, y: Arrays) -> int:
        # Features in place of inputs may be of fewer: see `KeptInOrder`.
        arguments = (*self.manifest.labels, *self.manifest.arguments)
        held = {item.spec.name: item.place for item in arguments if item.place}
        arrays = {**x, **y}
        return next(
            (place.count(arrays[name].shape) for name, place in held.items() if name in arrays), 1
        )

    def _check(self, metric: Metric | Function) -> None:
        """Checks that a metric goes with the labels.

        Raises:
            UsageError: it does not, or there are none.
        """
        held = self._held
        if isinstance(metric, Metric) and held not in metric.labels:
            fitting = [name for name, kind in METRICS.items() if held in kind.labels]
            raise UsageError(
                f"the metric {metric.name} needs labels that are {' or '.join(metric.labels)}; "
                f"the labels of {self._main.output.name} are {held}",
                where="metrics",
                hint=f"with the loss {self.manifest.loss}, use one of {', '.join(fitting)}; in "
                "Python, also a function of outputs and labels",
            )
