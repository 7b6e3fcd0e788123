"""`LiveView`: a chart of the losses and a line about the run, redrawn while it goes on.

    2.31 |..
         |  ..o
         |    ...
    0.42 |       ....o
    . loss  o val_loss
    ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    step 412 of 660, epoch 10: loss 0.4211, val_loss 0.4310, 312.5 steps/s, 0:00:01 left, 212 MiB

Where there is no terminal and no notebook, the last line comes now and then. No thread draws: it is
redrawn after a step, so that a signal, or an error, finds a whole terminal.
"""

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from odtc.backends.compiled_for import target_of
from odtc.backends.targets import CPU
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import instance_of, optional
from odtc.core.printable import printable
from odtc.core.text_chart import text_chart
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.view.points import Points
from odtc.runtime_rpc.loop.view.vitals import Vitals

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run

_REDRAWN_SECONDS, _LINE_SECONDS = 0.1, 5.0
_WIDEST, _HIGHEST = 100, 10
# Lines of a terminal that are for what else is said; of fewer the chart takes none.
_OTHERS, _LOWEST = 10, 3
_LOSS, _VALIDATION = ".", "o"
_CONSOLE = instance_of(
    "rich.console", "Console", "rich console", "give a rich.console.Console, or leave it out"
)
# Before the numbers of y, which are short, and the line after them.
_LABELS = 12


class LiveView(Callback):
    """Shows a run live: loss curves, time left, steps per second, memory and temperature.

        trainer.fit("train.npz", lr=0.05, epochs=20, callbacks=[odtc.LiveView()])

    In a terminal or a notebook it is redrawn in place; elsewhere it prints a line now and then.

    Args:
        console: console of rich to draw on; by default one on stderr.
    """

    @takes("odtc.LiveView", console=optional(_CONSOLE))
    def __init__(self, console: "Console | None" = None) -> None:
        self._given = console
        self._live: Live | None = None
        self._is_gone = False

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        from rich.console import Console
        from rich.live import Live

        self._console = self._given or Console(stderr=True, highlight=False)
        self._losses, self._validations = Points(), Points()
        self._vitals = Vitals(run.trainer.session)
        self._emulated = bool(run.trainer.session.info()["emulated"])
        self._began, self._first, self._drawn = time.monotonic(), run.step, 0.0
        self._compiles = target_of(run.trainer.manifest).kind != CPU
        self._last: dict[str, float] = {}
        for row in run.history:
            self._note(row)
        # One that cannot move its cursor gets lines.
        moves = self._console.is_terminal and not self._console.is_dumb_terminal
        if moves or self._console.is_jupyter:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        self._losses.add(step, loss, run.label_weight)
        if run.label_weight:
            self._last["loss"] = loss
        if run.is_at_rest:
            if self._compiles:
                # The driver of a GPU compiles in its first steps, which say nothing of the others.
                self._began, self._first, self._compiles = time.monotonic(), run.step, False
            self._draw(run)

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`."""
        self._note(row)

    def on_train_end(self, run: "Run") -> None:
        """See `Callback.on_train_end`."""
        self._draw(run, at_once=True)
        self._end()

    def on_exception(self, run: "Run") -> None:
        """See `Callback.on_exception`: what was drawn last stays, with the cursor behind it."""
        self._end()

    def _end(self) -> None:
        live, self._live = self._live, None
        if live:
            # A terminal that is gone keeps no run from its end.
            with suppress(OSError):
                live.stop()

    def _note(self, row: "Row") -> None:
        self._last |= {key: value for key, value in row.items() if key.startswith("val_")}
        if "val_loss" in row:
            self._validations.add(row["step"], row["val_loss"])

    def _draw(self, run: "Run", *, at_once: bool = False) -> None:
        pause = _REDRAWN_SECONDS if self._live else _LINE_SECONDS
        if not at_once and time.monotonic() - self._drawn < pause:
            return
        self._drawn = time.monotonic()
        if self._live:
            try:
                self._live.update(self._picture(run), refresh=True)
            except OSError:
                self._end()
        elif not self._is_gone:
            from rich.text import Text

            try:
                self._console.print(Text(self._line(run)), soft_wrap=True)
            except OSError:
                self._is_gone = True

    def _picture(self, run: "Run") -> "Group":
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        parts: list[Any] = []
        width = min(self._console.width, _WIDEST)
        height = min(self._console.height - _OTHERS, _HIGHEST)
        if height >= _LOWEST and width > 2 * _LABELS:
            validations = self._validations.shown()
            series = {_LOSS: self._losses.shown(), _VALIDATION: validations}
            parts += [Text(line) for line in text_chart(series, width - _LABELS, height)]
            legend = f"{_LOSS} loss" + (f"  {_VALIDATION} val_loss" if validations else "")
            parts.append(Text(legend))
        if total := run.course.last_step:
            # Within a padding it is a line: it ends in none itself.
            parts.append(Padding(ProgressBar(total=total, completed=run.step, width=width)))
        return Group(*parts, Text(self._line(run)))

    def _line(self, run: "Run") -> str:
        total = run.course.last_step
        of = f" of {total}" if total else ""
        values = [f"{key} {value:.4f}" for key, value in self._last.items()]
        said = [*values, *self._pace(run, total), self._vitals.text()]
        return printable(f"step {run.step}{of}, epoch {run.epoch}: {', '.join(filter(None, said))}")

    def _pace(self, run: "Run", total: int | None) -> list[str]:
        """Steps a second and time left, by the clock of the run; an emulator's is no speed."""
        seconds, steps = time.monotonic() - self._began, run.step - self._first
        if not steps or not seconds:
            return []
        said = [] if self._emulated else [f"{steps / seconds:.1f} steps/s"]
        if total and total > run.step:
            left = timedelta(seconds=round((total - run.step) * seconds / steps))
            said.append(f"{left} left")
        return said
