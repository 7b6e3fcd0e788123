"""What is called while a run goes on: one class to derive from, which all of odtc's own do too."""

from typing import TYPE_CHECKING

from odtc.core.elsewhere.names import CALLBACK
from odtc.core.elsewhere.rows import check_set

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.history import Row
    from odtc.runtime_rpc.loop.run import Run

# Of odtc's own callbacks; what is set beside them is an error.
_ATTRIBUTES = ("path", "restore")


class Callback:
    """Hooks of a run, which do nothing by default; `run.stop("why")` ends it after the step.

    Within a step they are called in this order. `on_validation_end` and `on_epoch_end` receive the
    row of the history that ends at that step; a callback may add its own numbers to it.
    """

    def __setattr__(self, name: str, value: object) -> None:
        check_set(self, name, _ATTRIBUTES, CALLBACK)
        super().__setattr__(name, value)

    def on_train_begin(self, run: "Run") -> None:
        """Before the first step; of a run that is taken up, with the history so far."""

    def on_train_batch_end(self, run: "Run", step: int, loss: float) -> None:
        """After each step; those of one call to a device come one after the other."""

    def on_validation_end(self, run: "Run", row: "Row") -> None:
        """After each validation; without one at the end of each epoch, and of the run."""

    def on_epoch_end(self, run: "Run", row: "Row") -> None:
        """After the last step of an epoch, and its validation."""

    def on_safe_point(self, run: "Run") -> None:
        """Where a checkpoint is of the step that was told last, and has its row in the history."""

    def on_train_end(self, run: "Run") -> None:
        """After the last step, also where something stopped the run; not after an error."""

    def on_exception(self, run: "Run") -> None:
        """In place of that after an error or an interrupt, which goes on its way afterwards."""


def unknown_hooks(callback: Callback) -> tuple[str, ...]:
    """What is called as a hook is, and is none: those of other libraries, and misspelt ones."""
    names = sorted(name for name in dir(type(callback)) if name.startswith("on_"))
    return tuple(name for name in names if not hasattr(Callback, name))


class OnEpoch(Callback):
    """A function that gets the row of each epoch.

    Args:
        function: of the row.
    """

    def __init__(self, function) -> None:
        self._function = function

    def on_epoch_end(self, run: "Run", row: "Row") -> None:
        """See `Callback.on_epoch_end`."""
        self._function(row)
