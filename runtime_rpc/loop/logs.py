"""Logs of a run: JSON lines, and the format of TensorBoard."""

import json
import math
import os
import time
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.core.disk.files import atomic_write, output_errors
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import PATH
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.history import for_json

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run


class JsonLines(Callback):
    """Writes each step and each row of the history as a line of JSON.

    Steps have `step`, `epoch`, `loss`, `lr` and `time` (seconds since 1970); rows have the columns
    of the history, and `row` is true. The loss of a step in which no label counts is null. A
    resumed run continues the file from its checkpoint: lines of later steps are removed, so that
    each step is in it once.

    Args:
        path: path of the file.
    """

    @takes("odtc.JsonLines", path=PATH)
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: TextIOWrapper | None = None

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        with atomic_write(self.path) as temporary, output_errors(self.path):
            temporary.write_text("".join(_up_to(self.path, run)), "utf-8")
        with output_errors(self.path):
            self._file = self.path.open("a", encoding="utf-8", buffering=1)

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        known = loss if run.label_weight else math.nan
        said = {"step": step, "epoch": run.epoch, "loss": known, "lr": run.lr}
        self._write(said | {"time": time.time()})

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`."""
        self._write({"row": True, **row})

    def on_train_end(self, run: "Run") -> None:
        """See `Callback.on_train_end`."""
        if self._file:
            self._file.close()

    def on_exception(self, run: "Run") -> None:
        """See `Callback.on_exception`."""
        self.on_train_end(run)

    def _write(self, said: dict[str, Any]) -> None:
        assert self._file
        with output_errors(self.path):
            self._file.write(json.dumps(for_json(said)) + "\n")


def _up_to(path: Path, run: "Run") -> list[str]:
    """The lines of the run so far that a file has; none of a run that begins."""
    if not run.step or not path.exists():
        return []
    found, rows = [], {row["step"] for row in run.history}
    for line in path.read_text("utf-8", "replace").splitlines(keepends=True):
        try:
            said = json.loads(line)
            step, is_row = int(said["step"]), bool(said.get("row"))
        except (ValueError, TypeError, KeyError):
            continue  # a line that a kill cut
        if step in rows if is_row else step <= run.step:
            found.append(line)
    return found


class TensorBoard(Callback):
    """Writes losses, learning rates and the columns of the history for TensorBoard.

    Args:
        folder: folder of the event files; each run, and each resumed run, adds a file.

    Raises:
        MissingPackageError: tensorboardX is not installed.
    """

    @takes("odtc.TensorBoard", folder=PATH)
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_packages("tensorboardX")
        self._folder, self._writer = folder, None

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`."""
        from tensorboardX import SummaryWriter

        with output_errors(self._folder):
            self._writer: Any = SummaryWriter(os.fspath(self._folder), purge_step=run.step + 1)

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """See `Callback.on_train_batch_end`."""
        if run.label_weight:
            self._writer.add_scalar("loss/step", loss, step)
        self._writer.add_scalar("lr", run.lr, step)

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`."""
        for key, value in row.items():
            if key not in ("step", "lr"):
                self._writer.add_scalar(key, value, row["step"])

    def on_train_end(self, run: "Run") -> None:
        """See `Callback.on_train_end`."""
        if self._writer:
            self._writer.close()

    def on_exception(self, run: "Run") -> None:
        """See `Callback.on_exception`."""
        self.on_train_end(run)
