"""Checkpoints of a run: the last one, some before it, and the best."""

import glob
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.core.disk.files import atomic_write
from odtc.core.errors import ArtifactError
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import FLAG, PATH, TEXT, optional, whole_from
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.monitor import Monitor, check_mode, measured_at, monitor_of
from odtc.runtime_rpc.state.checkpoint import read_active, read_step

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run

_NUMBERED = "numbered checkpoints"


class Checkpoint(Callback):
    """Writes a checkpoint at the end of a run, and optionally every few steps.

    Args:
        path: path of the file, which always holds the latest checkpoint; a run is resumed from it.
        every: number of steps from one checkpoint to the next; None for only one at the end.
        keep: number of checkpoints to keep in addition, each as `NAME-stepN`; older ones of the run
            are removed.
    """

    @takes("odtc.Checkpoint", path=PATH, every=optional(whole_from(1)), keep=whole_from(0))
    def __init__(
        self, path: str | os.PathLike[str], every: int | None = None, keep: int = 0
    ) -> None:
        self.path, self._every, self._keep = Path(path), every, keep
        self._saved = 0

    @property
    def every(self) -> int | None:
        """Steps from one to the next; None for one at the end."""
        return self._every

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`.

        Raises:
            UsageError: the file, or one that is kept beside it, has adapters that would be lost.
        """
        run.trainer._check_kept(self.path)
        for path in self._numbered_of(run) if self._keep else ():
            run.trainer._check_kept(path)
            if said := run.trainer._others_replaced(path, "keeps all of them"):
                warn_caller(said)
        self._saved = run.step

    def on_safe_point(self, run: "Run") -> None:
        """See `Callback.on_safe_point`."""
        if self._every is not None and run.step // self._every > self._saved // self._every:
            self._save(run)

    def on_train_end(self, run: "Run") -> None:
        """See `Callback.on_train_end`."""
        self._save(run)

    def _save(self, run: "Run") -> None:
        self._saved = run.step
        if not self._keep:
            run.save(self.path)
            return
        kept: list[int] = run.notes.setdefault(_NUMBERED, [])
        if run.step not in kept:
            kept.append(run.step)
        older = kept[: len(kept) - self._keep]
        del kept[: len(older)]
        run.save(self.path)
        with atomic_write(self._numbered(run.step)) as temporary:
            shutil.copyfile(self.path, temporary)
        # After the checkpoint that has no part in them: what a kill leaves is one too many.
        for step in older:
            with suppress(FileNotFoundError, ArtifactError):
                # The run of another adapter may have written its own there.
                if read_active(self._numbered(step)) in (None, run.trainer.active_adapter):
                    self._numbered(step).unlink()

    def _numbered_of(self, run: "Run") -> list[Path]:
        """The numbered files that are there and that the run may replace."""
        last = run.course.last_step
        begin, end = f"{self.path.stem}-step", self.path.suffix
        beside = self.path.parent.glob(f"{glob.escape(begin)}*{glob.escape(end)}")
        numbers = (path.name.removeprefix(begin).removesuffix(end) for path in beside)
        steps = sorted(int(each) for each in numbers if each.isdecimal())
        within = [each for each in steps if each >= run.step and (last is None or each <= last)]
        return [self._numbered(each) for each in within]

    def _numbered(self, step: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-step{step}{self.path.suffix}")


class BestCheckpoint(Callback):
    """Writes a checkpoint after each validation that is the best so far.

    Args:
        path: path of the file.
        monitor: column of the history to compare by; `val_loss` by default.
        mode: `min` if lower values are better, `max` if higher ones are; by default it follows from
            the column.
        restore: whether to load these weights and their step count into the trainer at the end of
            the run.
    """

    @takes(
        "odtc.BestCheckpoint",
        path=PATH,
        monitor=optional(TEXT),
        mode=optional(TEXT),
        restore=FLAG,
    )
    def __init__(
        self,
        path: str | os.PathLike[str],
        monitor: str | None = None,
        mode: str | None = None,
        *,
        restore: bool = False,
    ) -> None:
        check_mode(mode, "odtc.BestCheckpoint")
        self.path, self.restore, self._asked = Path(path), restore, (monitor, mode)
        self._monitor: Monitor | None = None
        self._after = 0

    def on_train_begin(self, run: "Run") -> None:
        """See `Callback.on_train_begin`.

        Raises:
            UsageError: as of `Checkpoint`; or nothing measures the column.
        """
        run.trainer._check_kept(self.path)
        if said := run.trainer._others_replaced(self.path, "keeps the best of each"):
            warn_caller(said)
        self._monitor, self._after = monitor_of(run, *self._asked, "BestCheckpoint"), 0
        best = self.best(run)
        if best and not self._is_of(run, int(best["step"]) + run.now.start):
            # Of a run that goes on, but kept no best one before, or elsewhere.
            self._after = run.step

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_validation_end`."""
        if self.best(run) is row:
            run.save(self.path)

    @property
    def names_column(self) -> bool:
        """Whether the user names the column."""
        return self._asked[0] is not None

    @property
    def column(self) -> str:
        """The column that it watches."""
        assert self._monitor
        return self._monitor.column

    def best(self, run: "Run") -> "Row | None":
        """The best row of those that it saw, or whose checkpoint there was before."""
        assert self._monitor
        return self._monitor.best(run, self._after)

    def missing(self, run: "Run") -> str:
        """What is to be said where validations had no number, so that none is the best."""
        measured = any(row["step"] > self._after for row in run.history)
        if not measured or self.best(run) is not None:
            return ""
        weights = "; the weights are those of the last step" if self.restore else ""
        return (
            f"{self.column} was NaN at every {measured_at(run)}: {self.path} is not written"
            f"{weights}"
        )

    def _is_of(self, run: "Run", step: int) -> bool:
        """Whether the file is the checkpoint of a step of the adapter at work."""
        try:
            mine = read_active(self.path) in (None, run.trainer.active_adapter)
            return mine and read_step(self.path) == step
        except ArtifactError:
            return False

    def restored(self, run: "Run") -> bool:
        """Gives the trainer the best weights, where that is asked for and there are any."""
        if not self.restore or self.best(run) is None:
            return False
        run.trainer.load_checkpoint(self.path)
        return True
