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
        seconds: wall time of its steps but for those apart.
        apart: number of the steps in whose time the driver of a GPU compiled kernels.
        apart_seconds: wall time of these.
        loss: of its last step that had a label that counts.
    """

    emulated: bool = False
    steps: int = 0
    seconds: float = 0.0
    apart: int = 0
    apart_seconds: float = 0.0
    loss: float | None = None

    @property
    def step_ms(self) -> float | None:
        """Mean time of a step in milliseconds; None where all are apart."""
        steps = self.steps - self.apart
        return 1000 * self.seconds / steps if steps else None

    @property
    def apart_ms(self) -> float:
        """Time of all steps that are apart, in milliseconds."""
        return 1000 * self.apart_seconds

    def time_text(self) -> str:
        """The time of a step, for people."""
        if self.emulated:
            return EMULATED
        return self.apart_text() if self.step_ms is None else f"{self.step_ms:.2f} ms a step"

    def apart_text(self) -> str:
        """The time of steps that are apart, for people; empty where there are none."""
        if not self.apart or self.emulated:
            return ""
        what = "first step" if self.apart == 1 else f"{self.apart} first steps"
        return f"{what} {self.apart_ms:.0f} ms, in which the driver compiles"

    def count(self, seconds: float, *, is_apart: bool) -> None:
        """Counts a step that took so many seconds."""
        self.steps += 1
        if is_apart:
            self.apart, self.apart_seconds = self.apart + 1, self.apart_seconds + seconds
        else:
            self.seconds += seconds


class Compiling:
    """Tells the steps in whose time the driver of a GPU compiles kernels from others.

    They are those of the first call at each length and by each plan: a call of several steps takes
    its time before it tells of the first.

    Args:
        run: that begins.
    """

    def __init__(self, run: "Run") -> None:
        # Imported here, for a quick `--help`.
        from odtc.backends.compiled_for import target_of
        from odtc.backends.targets import CPU

        self._is_on_gpu = target_of(run.trainer.manifest).kind != CPU
        self._seen, self._in_call = set[tuple[str, int]](), False

    def __call__(self, run: "Run") -> bool:
        """Whether the step that was told last is such a one; asked once for each."""
        if not self._is_on_gpu:
            return False
        key = run.trainer.plan.function, run.trainer.length
        is_apart = self._in_call or key not in self._seen
        self._seen.add(key)
        self._in_call = is_apart and not run.is_at_rest
        return is_apart


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
        self._plan, self._compiling = run.trainer.plan, Compiling(run)

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        done, plan = self._done, run.trainer.plan
        done.count(run.seconds - self._seconds, is_apart=self._compiling(run))
        self._seconds = run.seconds
        if run.label_weight:
            done.loss, shown = loss, f"loss {loss:.4f}"
        else:
            shown = "no label counts"
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
