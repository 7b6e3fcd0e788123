"""What a run measures beside its losses, what it keeps for it, and what ends it early."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import MANY, at_least, output_file
from odtc.cli.switches import Switch
from odtc.cli.training.sources import Trained, read_source
from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.data.wanted import ReadOptions
    from odtc.runtime_rpc.loop.callback import Callback
    from odtc.runtime_rpc.loop.keeping import BestCheckpoint
    from odtc.runtime_rpc.loop.measured.validation import Validation


@dataclass(frozen=True)
class Watching:
    """What a run measures beside its losses, and what follows from it.

    Attributes:
        validation: samples that are not trained; None for none.
        metrics: names of what is measured on them, beside the loss.
        validate_every: steps from one validation to the next; None for one each epoch.
        monitor: the column of the history that decides; None for the usual one.
        mode: which of its values are better; None for what is known of it.
        patience: rows without an improvement that end the run; None for no such end.
        min_delta: the least improvement.
        best: the checkpoint of the best row; None for none.
        restore_best: whether that is what is measured and exported at the end.
        max_time: seconds that this process trains; None for no limit.
        log: the file of JSON lines; None for none.
        tensorboard: the folder of event files; None for none.
        ema: whether moving averages of the weights take their place.
    """

    validation: Path | None
    metrics: list[str] | None
    validate_every: int | None
    monitor: str | None
    mode: str | None
    patience: int | None
    min_delta: float
    best: Path | None
    restore_best: bool
    max_time: float | None
    log: Path | None
    tensorboard: Path | None
    ema: bool

    def check(self) -> None:
        """Checks that the options go together.

        Raises:
            UsageError: one is about what is not asked for.
        """
        needs = {
            "metrics": (self.metrics, self.validation, "--validation FILE"),
            "validate-every": (self.validate_every, self.validation, "--validation FILE"),
            "restore-best": (self.restore_best, self.best, "--best FILE"),
            "min-delta": (self.min_delta, self.patience, "--patience N"),
            "monitor": (self.monitor, self.patience or self.best, "--patience N or --best FILE"),
            "mode": (self.mode, self.patience or self.best, "--patience N or --best FILE"),
        }
        for name, (given, other, option) in needs.items():
            if given and not other:
                raise UsageError(f"--{name} needs {option}", hint=f"pass {option}")
        if self.max_time is not None and not self.max_time > 0:
            raise UsageError(
                f"--max-time is {self.max_time:g}, not above 0",
                hint="give the seconds that the run may take, such as 3600",
            )
        if not self.min_delta >= 0:
            raise UsageError(
                f"--min-delta is {self.min_delta:g}, not 0 or above",
                hint="give the least by which a value has to be better, such as 0.001",
            )

    def measured(
        self, manifest: "Manifest", options: "ReadOptions", trained: Trained
    ) -> "Validation | None":
        """The validation; None where there is none.

        Raises:
            OdtcError: its samples cannot be read, or do not fit the step; see `read_source`.
            UsageError: a metric is none, or does not go with the labels.
        """
        # Imported here: samples bring numpy.
        from odtc.runtime_rpc.loop.measured.metrics import metrics_of
        from odtc.runtime_rpc.loop.measured.usual import with_usual
        from odtc.runtime_rpc.loop.measured.validation import Validation
        from odtc.runtime_rpc.loop.monitor import WITHOUT_VALIDATION

        if self.validation is None:
            if (self.patience or self.best) and not self.monitor:
                say(f"note: {WITHOUT_VALIDATION}")
            return None
        source = read_source(self.validation, manifest, options, trained)
        metrics = with_usual(metrics_of(self.metrics or ()), manifest)
        found = Validation(source, manifest, metrics, self.ema)
        if found.note:
            say(f"note: {found.note}")
        return found

    def best_checkpoint(self) -> "BestCheckpoint | None":
        """What keeps the best checkpoint."""
        from odtc.runtime_rpc.loop.keeping import BestCheckpoint

        if self.best is None:
            return None
        return BestCheckpoint(self.best, self.monitor, self.mode, restore=self.restore_best)

    def callbacks(self) -> "list[Callback]":
        """The others, in the order in which they are called."""
        from odtc.runtime_rpc.loop.logs import JsonLines, TensorBoard
        from odtc.runtime_rpc.loop.stopping import EarlyStopping, TimeLimit

        found: list[Callback] = []
        if self.log:
            found.append(JsonLines(self.log))
        if self.tensorboard:
            found.append(TensorBoard(self.tensorboard))
        if self.max_time is not None:
            found.append(TimeLimit(self.max_time))
        if self.patience:
            found.append(EarlyStopping(self.monitor, self.patience, self.min_delta, self.mode))
        return found


def add_watching_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `Watching`, but for `--ema`."""
    add = parser.add_argument
    add(
        "--validation",
        type=Path,
        metavar="DATA",
        help="data on which to measure the loss, the metrics and, for a language model, the "
        "perplexity after each epoch",
    )
    add(
        "--metrics",
        **MANY,
        metavar="M",
        help="metrics of the validation: accuracy, top-k{k=5}, mse, mae, r2, f1, iou or perplexity",
    )
    add(
        "--validate-every",
        type=at_least(1),
        metavar="STEPS",
        help="also validate every STEPS steps",
    )
    add(
        "--patience",
        type=at_least(1),
        metavar="N",
        help="end the run after N validations in a row without an improvement",
    )
    add(
        "--min-delta",
        type=float,
        default=0.0,
        metavar="F",
        help="smallest change that counts as an improvement (default: 0)",
    )
    add(
        "--best",
        type=output_file,
        metavar="FILE",
        help="write a checkpoint to FILE at each new best validation",
    )
    add(
        "--restore-best",
        action=Switch,
        help="at the end, evaluate and export the weights with the best validation",
    )
    add(
        "--monitor",
        metavar="COLUMN",
        help="column of the history that decides which validation is best, such as val_accuracy "
        "(default: val_loss, or loss without a validation)",
    )
    add(
        "--mode",
        choices=("min", "max"),
        help="whether a smaller or a larger value of that column is better",
    )
    add(
        "--max-time",
        type=float,
        metavar="SECONDS",
        help="end the run after this many seconds; --resume continues it",
    )
    add(
        "--log",
        type=output_file,
        metavar="JSONL",
        help="log each step and validation as a line of JSON",
    )
    add(
        "--tensorboard",
        type=Path,
        metavar="FOLDER",
        help="log each step and validation for TensorBoard",
    )
