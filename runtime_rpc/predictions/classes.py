"""Which outputs are the scores of classes, and how the file of an exported model says so."""

from dataclasses import dataclass

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Classes, Role, TensorSpec
from odtc.runtime_rpc.loop.measured.terms import label_of, loss_terms

_LOGITS = "bce-with-logits"
_ROW = 2
# A logit is of two classes: 0, and where it is above 0, 1.
_OF_A_LOGIT = 2


@dataclass(frozen=True)
class Scores:
    """What the numbers of a sample in an output are.

    Attributes:
        width: how many there are.
        classes: whose scores they are; 0 where they are none.
        is_logit: whether the number is a logit, above 0 of class 1.
    """

    width: int
    classes: int = 0
    is_logit: bool = False

    @property
    def told(self) -> int:
        """How many classes the output tells apart; 0 where it tells none."""
        return _OF_A_LOGIT if self.is_logit else self.classes


def is_table(evaluation: Evaluation) -> bool:
    """Whether an output has a row of numbers for each sample."""
    return evaluation.place == Place(0) and len(evaluation.output.shape) <= _ROW


def scores_of(manifest: Manifest, evaluation: Evaluation) -> Scores:
    """What an output that has a row of numbers for each sample is.

    Args:
        manifest: of the step, or of an exported file.
        evaluation: of the output.
    """
    width = int(np.prod(evaluation.output.shape[1:]))
    label = label_of(manifest, evaluation)
    classes = label.classes if label else None
    if width == 1:
        losses = [term.name for term in loss_terms(manifest) if term.evaluation == evaluation]
        # What a file says of a logit; a step compares no single number with two classes.
        is_told = label is not None and label.spec.name == _label_name(evaluation.output.name)
        is_two = classes is not None and classes.count == _OF_A_LOGIT
        if losses == [_LOGITS] or (is_told and is_two):
            return Scores(width, is_logit=True)
    is_each = classes is not None and classes.axis == 1 and classes.count == width
    return Scores(width, width if is_each else 0)


def class_counts(manifest: Manifest) -> dict[str, int]:
    """How many classes each output of a step tells apart, of those that tell some."""
    tables = [each for each in manifest.evaluations if is_table(each)]
    counts = {each.output.name: scores_of(manifest, each).told for each in tables}
    return {name: count for name, count in counts.items() if count}


def labels_of_classes(counts: dict[str, int], batch: int) -> list[Argument]:
    """The labels that a step whose outputs tell so many classes apart would take.

    Args:
        counts: as of `class_counts`.
        batch: samples in them.
    """
    return [
        Argument(
            Role.LABEL,
            TensorSpec(_label_name(name), (batch,), "int32"),
            Classes(count),
            place=Place(0),
        )
        for name, count in counts.items()
    ]


def _label_name(output: str) -> str:
    """The name by which `label_of` finds the label of an output."""
    return f"label_of_{output}"
