"""What is measured at the end of a run, on samples that it was not trained with."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.training.sources import Trained, read_source

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.data.wanted import ReadOptions
    from odtc.runtime_rpc.trainer import Trainer

_CALLED = {"loss": "eval_loss"}


def evaluation_of(
    path: Path | None, manifest: "Manifest", options: "ReadOptions", trained: Trained, *, ema: bool
) -> "Callable[[Trainer], dict[str, float]]":
    """Measures a trainer on the samples of a file, by names of a summary; nothing where is none.

    Raises:
        OdtcError: the samples cannot be read, or do not fit the step; see `read_source`.
    """
    if path is None:
        return lambda _: {}
    # Imported here: samples bring numpy.
    from odtc.cli.training.loop import notes
    from odtc.runtime_rpc.loop.measured.metrics import Accuracy
    from odtc.runtime_rpc.loop.measured.usual import usual_metrics
    from odtc.runtime_rpc.loop.measured.validation import Validation

    metrics = [Accuracy()] if any(item.classes for item in manifest.labels) else []
    source = read_source(path, manifest, options, trained)
    held = Validation(source, manifest, (*metrics, *usual_metrics(manifest)), ema)
    if held.note:
        say(f"note: {held.note}")

    def measure(trainer: "Trainer") -> dict[str, float]:
        with notes():
            return {_CALLED.get(k, k): value for k, value in held.measure(trainer).items()}

    return measure
