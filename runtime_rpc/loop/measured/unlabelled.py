"""What is said of batches without a label that counts, whose loss is the mean of nothing.

PyTorch's loss is a NaN there, which spoils all weights. odtc's is 0, with gradients of 0: the step
is taken as any other, in an app, too, so that steps are counted alike everywhere.
"""

from dataclasses import dataclass

from odtc.core.errors import DataError

_HINT = (
    "check how labels are made: a prompt that fills its row leaves no labels, and neither does a "
    "row that is all padding"
)


@dataclass(frozen=True)
class Uncounted:
    """Why labels count for nothing.

    Attributes:
        ignored: the label that takes no part in the loss, where some are it.
        is_by_class: whether some are of a class whose weight is 0.
    """

    ignored: int | None
    is_by_class: bool

    def __str__(self) -> str:
        """As text, of all labels of a batch."""
        by_class = "of a class whose weight is 0"
        if self.ignored is None:
            return f"each is {by_class}"
        more = f", or {by_class}" if self.is_by_class else ""
        return f"each is {self.ignored}, which the loss ignores{more}"


def first_text(step: int, why: str) -> str:
    """Says that a batch is such a one.

    Args:
        step: its number.
        why: none counts.
    """
    return (
        f"step {step}: no label of its batch counts ({why}). Its loss is told as 0, and "
        "left out of means over steps; its gradients are 0, by which an optimizer with momentum or "
        "weight decay still moves weights. Other such batches are counted, and not told of"
    )


def total_text(count: int, first: int, steps: int) -> str:
    """Says how many there were, of so many steps of a run; empty where there was none.

    Args:
        count: of them.
        first: the number of the first one's step.
        steps: of the run.
    """
    if not count:
        return ""
    return (
        f"the batches of {count} of {steps} steps had no label that counts, the first of them at "
        f"step {first}: they are left out of the loss of the run"
    )


def row_text(step: int) -> str:
    """Says that a row of a history has no loss, as no step of it had a label that counts."""
    return (
        f"no batch up to step {step} has had a label that counts since the row before: the loss of "
        "this row, and of others like it, is NaN"
    )


def validation_text(where: str) -> str:
    """Says that a validation has no loss, as no label of its samples counts."""
    return f"{where}: no label of the validation data counts, so its loss is NaN"


def nothing_to_train(steps: int, why: Uncounted) -> DataError:
    """The error of a run whose steps had no label that counts, at the end of an epoch."""
    return DataError(
        f"no label counts in any batch of the {steps} steps so far ({why})",
        where="labels",
        hint=_HINT,
    )
