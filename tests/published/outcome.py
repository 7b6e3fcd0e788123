"""Outcomes of files."""

from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """The outcome in a word."""

    EQUAL = "equal"
    REFUSED = "refused"
    LATE = "late"
    WRONG = "WRONG"
    FAULT = "FAULT"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a file.

    Attributes:
        word: wrong is a number beyond its bound, or a file that `odtc check` passes and that does
            not train; a fault is any end but an error of odtc's own; late, that the time was over.
        reason: why it is not equal.
        parameters: how many are trained.
        forward: largest difference of `evaluate` from onnxruntime, relative where above 1.
        gradient: largest relative difference of a directional derivative from finite differences of
            what onnxruntime computes.
        losses: of the steps.
        export: the same difference of the exported file from `evaluate` after the steps.
    """

    word: Word
    reason: str = ""
    parameters: int | None = None
    forward: float | None = None
    gradient: float | None = None
    losses: tuple[float, ...] = ()
    export: float | None = None
