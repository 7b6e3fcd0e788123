"""Takes the steps of a run: up to the end or to what stops it, with validations between them."""

import math
import time
from collections.abc import Sequence

from odtc.core.options.caller_warning import warn_caller
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.history import History, Row
from odtc.runtime_rpc.loop.measured.label_weights import uncounted
from odtc.runtime_rpc.loop.measured.unlabelled import nothing_to_train, row_text
from odtc.runtime_rpc.loop.run import Run


def go(run: Run, callbacks: Sequence[Callback]) -> History:
    """Takes the steps that are left.

    Args:
        run: at the step that it goes on from.
        callbacks: in the order in which they are called.

    Raises:
        OdtcError: as of `Trainer.train`, `Trainer.evaluate` and the callbacks.
        DataError: no step of the run had a label that counts, at the end of an epoch.
    """
    going = _Going(run, callbacks)
    try:
        return going.all()
    except BaseException as error:
        going.broken(error)
        raise


class _Going:
    def __init__(self, run: Run, callbacks: Sequence[Callback]) -> None:
        self._run, self._course, self._callbacks = run, run.course, callbacks
        self._said_empty = False

    def all(self) -> History:
        """The run up to its end."""
        run, course = self._run, self._course
        self._tell("on_train_begin")
        # A run may have been cut between a step and its validation.
        if course.validates(run.step) and not self._has_row and not run.history.stopped:
            self._measure()
        while not course.ends(run.step) and not run.history.stopped:
            self._segment()
        if run.now.count and course.ends(run.step):
            self._measure()
        run.note()
        self._tell("on_train_end")
        return run.history

    def broken(self, error: BaseException) -> None:
        """Lets callbacks close what they hold."""
        is_interrupt = isinstance(error, KeyboardInterrupt)
        self._run.stop("an interrupt" if is_interrupt else f"an error, {type(error).__name__}")
        self._tell("on_exception")

    def _segment(self) -> None:
        """Steps up to the next row of the history, or to what stops the run."""
        run, course = self._run, self._course
        feed = course.feed.segment(run.step, course.most(run.step))
        began = time.perf_counter()
        for loss in run.trainer.train(feed, self._rate, course.per_call):
            run.seconds += time.perf_counter() - began
            self._take(loss)
            if run.is_at_rest:
                if course.validates(run.step):
                    self._measure()
                self._tell("on_safe_point")
                if run.history.stopped:
                    return
            began = time.perf_counter()

    def _rate(self, updates: int) -> float:
        """The learning rate of an update, of those of the trainer."""
        before = self._run.now.start // self._run.trainer.manifest.accumulate
        return self._course.schedule(updates - before)

    def _take(self, loss: float) -> None:
        run, now = self._run, self._run.now
        run.step, run.loss, weight = run.step + 1, loss, run.trainer.label_weight
        run.label_weight, now.count = weight, now.count + 1
        if weight:
            now.loss, now.weight = now.loss + weight * loss, now.weight + weight
        else:
            now.unlabelled += 1
            now.first_unlabelled = now.first_unlabelled or run.step
        self._tell("on_train_batch_end", run.step, loss)

    def _measure(self) -> None:
        """Adds a row to the history.

        Raises:
            DataError: no step so far had a label that counts, and an epoch is over.
        """
        run, now, validation = self._run, self._run.now, self._course.validation
        is_over = self._course.feed.epoch_ends(run.step) or self._course.ends(run.step)
        if now.unlabelled == run.step and is_over:
            raise nothing_to_train(run.step, uncounted(run.trainer.manifest))
        row: Row = {"step": run.step, "epoch": run.epoch, "lr": run.lr}
        if now.count:
            row["loss"] = now.loss / now.weight if now.weight else math.nan
            if not now.weight and not self._said_empty:
                self._said_empty = True
                warn_caller(row_text(run.step))
        now.loss, now.count, now.weight = 0.0, 0, 0.0
        if validation:
            measured = validation.measure(run.trainer)
            row |= {f"val_{key}": value for key, value in measured.items()}
        run.history.rows.append(row)
        self._tell("on_validation_end", row)
        if self._course.feed.epoch_ends(run.step):
            self._tell("on_epoch_end", row)

    @property
    def _has_row(self) -> bool:
        rows = self._run.history.rows
        return bool(rows) and rows[-1]["step"] == self._run.step

    def _tell(self, hook: str, *args: object) -> None:
        for each in self._callbacks:
            getattr(each, hook)(self._run, *args)
