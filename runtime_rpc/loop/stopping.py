"""What ends a run before its last step."""

import math
import time
from typing import TYPE_CHECKING

from odtc.core.errors import UsageError
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import NUMBER, TEXT, optional, whole_from
from odtc.core.printable import counted
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.monitor import Monitor, check_mode, measured_at, monitor_of

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run


class EarlyStopping(Callback):
    """Ends a run when its validations no longer improve.

    The decision depends only on the history, so a resumed run stops where it would have stopped
    without the interruption.

    Args:
        monitor: column of the history to compare by; `val_loss` by default.
        patience: number of rows without an improvement after which the run ends; NaN is no
            improvement.
        min_delta: smallest change that counts as an improvement, at least 0.
        mode: `min` if lower values are better, `max` if higher ones are; by default it follows from
            the column.

    Raises:
        UsageError: an argument has the wrong type or value; the run has no such column.
    """

    @takes(
        "odtc.EarlyStopping",
        monitor=optional(TEXT),
        patience=whole_from(1),
        min_delta=NUMBER,
        mode=optional(TEXT),
    )
    def __init__(
        self,
        monitor: str | None = None,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: str | None = None,
    ) -> None:
        check_mode(mode, "odtc.EarlyStopping")
        if min_delta < 0:
            raise UsageError(
                f"min_delta is {min_delta:g}, below 0: values that are worse would be better",
                where="odtc.EarlyStopping",
                hint="give the least by which a value has to be better, such as 0.001",
            )
        self._asked, self._patience, self._least = (monitor, mode), patience, min_delta
        self._monitor: Monitor | None = None

    @property
    def worse_rows(self) -> int:
        """Rows that may follow the best one without an improvement."""
        return self._patience

    @property
    def names_column(self) -> bool:
        """Whether the user names the column."""
        return self._asked[0] is not None

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        self._monitor = monitor_of(run, *self._asked, "EarlyStopping")
        self._decide(run)

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`."""
        self._decide(run)

    def _decide(self, run: "Run") -> None:
        monitor = self._monitor
        assert monitor
        best, at, waited = math.nan, 0, 0
        for row in run.history:
            value = row.get(monitor.column, math.nan)
            is_first = math.isnan(best) and not math.isnan(value)
            if is_first or monitor.improves(value, best, self._least):
                best, at, waited = value, row["step"], 0
            else:
                waited += 1
        if waited >= self._patience:
            what = f"is no better than {best:.4g} at step {at}" if at else "is NaN"
            times = counted(waited, measured_at(run), f"{measured_at(run)}s")
            run.stop(f"{monitor.column} {what} for {times}")


class TimeLimit(Callback):
    """Ends a run after a time limit in this process; it can be resumed from a checkpoint.

    Args:
        seconds: time limit in seconds, above 0.
    """

    @takes("odtc.TimeLimit", seconds=NUMBER)
    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise UsageError(
                f"seconds is {seconds:g}, not above 0",
                where="odtc.TimeLimit",
                hint="give the seconds that a run may take, such as 3600",
            )
        self._seconds, self._end = seconds, math.inf

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        self._end = time.monotonic() + self._seconds

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        if time.monotonic() >= self._end:
            run.stop(f"the time limit of {self._seconds:g} seconds")
