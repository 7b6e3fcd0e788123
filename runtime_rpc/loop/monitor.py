"""The column of a history that a callback watches, and which of its values are the better ones."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odtc.core.errors import UsageError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.option_text import did_you_mean
from odtc.runtime_rpc.loop.history import History

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run

# What is said where nobody names the column, and there is no validation.
WITHOUT_VALIDATION = "there is no validation: the training loss decides what is better"
VAL, LOSS, MIN, MAX = "val_", "loss", "min", "max"


@dataclass(frozen=True)
class Monitor:
    """A column of a history.

    Attributes:
        column: such as `val_loss`.
        larger: whether larger values are better.
    """

    column: str
    larger: bool

    def best(self, run: "Run", after: int = 0) -> "Row | None":
        """The best row so far, of those after a step; None where there is none."""
        rows = History([row for row in run.history if row["step"] > after])
        return rows.best(self.column, larger=self.larger)

    def improves(self, value: float, best: float, least: float) -> bool:
        """Whether a value is better than the best one by more than `least`."""
        return value > best + least if self.larger else value < best - least


def measured_at(run: "Run") -> str:
    """What a row of a run's history is measured at: there is one an epoch without validations."""
    return "validation" if run.course.validation else "epoch"


def check_mode(mode: str | None, where: str) -> None:
    """Checks what a caller gives.

    Raises:
        UsageError: it is neither `min` nor `max`.
    """
    if mode not in (None, MIN, MAX):
        raise UsageError(
            f"mode {mode!r} is neither min nor max", where=where, hint="give one, or leave it out"
        )


def monitor_of(run: "Run", monitor: str | None, mode: str | None, where: str) -> Monitor:
    """What a callback watches in a run.

    Args:
        run: that it watches.
        monitor: the column; None for the loss of the validation, or where there is none that of the
            training.
        mode: `min` or `max`; None for what is known of the column.
        where: the callback, for messages.

    Raises:
        UsageError: the run has no such column, or nothing says which values are better.
    """
    validation = run.course.validation
    held = (
        {f"{VAL}{key}": validation.larger_is_better(key) for key in validation.keys}
        if (validation)
        else {}
    )
    held[LOSS] = False
    column = monitor or (f"{VAL}{LOSS}" if f"{VAL}{LOSS}" in held else LOSS)
    if column not in held:
        hint = f"{did_you_mean(column, held)}one of: {', '.join(held)}"
        needs = "" if validation else "; others need validation data"
        raise UsageError(f"the run has no column {column!r}", where=where, hint=hint + needs)
    better = held[column]
    larger = better if mode is None else mode == MAX
    if larger is None:
        raise UsageError(
            f"nothing says whether larger values of {column} are better",
            where=where,
            hint="give mode='max' or mode='min'",
        )
    if better is not None and larger != better:
        # It is what is asked for, and a metric may be watched so on purpose: an adversary's loss.
        right, kind = (MAX, "larger") if better else (MIN, "smaller")
        warn_caller(
            f"mode is {mode!r}, so worse values of {column} count as better ones: "
            f"{kind} values of it are better, mode {right!r}, which holds where none is given"
        )
    return Monitor(column, larger)
