"""The steps of a run, up to its end or a signal, as a person sees them."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odtc.cli.console import Update, console, progress_of, readable_bytes, say
from odtc.cli.interrupts import StopRequest, interruption
from odtc.runtime_rpc.loop.callback import Callback

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run

EMULATED = "emulated, not a measurement"


@dataclass
class Done:
    """The progress of a run so far.

    Attributes:
        emulated: a device of it is emulated, and its times are not results.
        steps: number of steps that it took itself.
        seconds: wall time of all its steps.
        loss: of its last step that had a label that counts.
    """

    emulated: bool = False
    steps: int = 0
    seconds: float = 0.0
    loss: float | None = None

    @property
    def step_ms(self) -> float:
        """Mean time of a step in milliseconds."""
        return 1000 * self.seconds / self.steps

    def time_text(self) -> str:
        """The time of a step, for people."""
        return EMULATED if self.emulated else f"{self.step_ms:.2f} ms a step"


class Told(Callback):
    """Counts what a run does, and tells of it.

    Args:
        done: what was done before; this goes on counting.
        update: takes the steps done and a remark.
    """

    def __init__(self, done: Done, update: Update = lambda step, remark: None) -> None:
        self._done, self._update = done, update
        self._seconds, self._plan = 0.0, None
        self._lengths: Counter[int] = Counter()

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        self._plan = run.trainer.plan

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        done, plan = self._done, run.trainer.plan
        done.steps += 1
        if run.label_weight:
            done.loss, shown = loss, f"loss {loss:.4f}"
        else:
            shown = "no label counts"
        done.seconds, self._seconds = done.seconds + run.seconds - self._seconds, run.seconds
        if run.trainer.manifest.shorter:
            self._lengths[run.trainer.length] += 1
        elif plan != self._plan:
            arena = readable_bytes(plan.arena_bytes)
            say(f"step {run.trainer.steps}: went on with an arena of {arena}, for the memory left")
            self._plan = plan
        self._update(step, f"{shown}, {done.time_text()}")

    def on_train_end(self, run: "Run") -> None:
        """See `Callback.on_train_end`; of several lengths it is told how many steps each took."""
        if self._lengths:
            taken = ", ".join(f"{count} at {n}" for n, count in sorted(self._lengths.items()))
            say(f"steps by length: {taken}")

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`; the loss alone is told step by step."""
        if not run.course.validation:
            return
        shown = ("loss", *(key for key in row if key.startswith("val_")))
        values = ", ".join(f"{key} {row[key]:.4f}" for key in shown if key in row)
        say(f"epoch {row['epoch']}, step {row['step']}: {values}")


class Signals(Callback):
    """Ends a run that a signal asks to end.

    Args:
        asked: what notes the signal.
    """

    def __init__(self, asked: StopRequest) -> None:
        self._asked = asked

    def on_safe_point(self, run: "Run") -> None:
        """See `Callback.on_safe_point`."""
        if self._asked.number:
            run.stop(self._asked.word)


def take_steps(run: "Run", callbacks: Sequence[Callback], done: Done) -> StopRequest:
    """Takes the steps that are left, or those up to a signal.

    Args:
        run: at the step that it goes on from.
        callbacks: beside those that tell of it.
        done: what was done so far; this goes on counting.

    Returns:
        Whether somebody asked for an end.
    """
    # Imported here, for a quick `--help`.
    from odtc.runtime_rpc.loop.going import go

    total = run.course.last_step
    assert total is not None
    with interruption(at_once=False) as asked, _shown(total, done) as views, notes():
        go(run, [*views, Signals(asked), *callbacks])
    return asked


@contextmanager
def notes() -> Iterator[None]:
    """Says what is warned of as notes: no line of a user's code would be told with it."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, UserWarning):
                say(f"note: {message}")
            else:
                shown(message, category, *where)

        warnings.showwarning = tell
        yield


@contextmanager
def _shown(total: int, done: Done) -> Iterator[Sequence[Callback]]:
    """What shows a run of so many steps: curves in a terminal, a line now and then elsewhere."""
    if not console().is_terminal:
        with progress_of(total, 0) as update:
            yield [Told(done, update)]
        return
    from odtc.runtime_rpc.loop.view.live_view import LiveView

    yield [Told(done), LiveView(console())]
