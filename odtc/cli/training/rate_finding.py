"""`odtc train --find-lr`: tries learning rates, and prints a curve and a suggestion."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, progress_of
from odtc.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from odtc.runtime_rpc.data.source import Stream
    from odtc.runtime_rpc.trainer import Trainer


def check_alone(asked: Mapping[str, Any]) -> None:
    """Checks that nothing is asked for that a test of rates does not do.

    Args:
        asked: what only a run does, by the name of the option.

    Raises:
        UsageError: something is.
    """
    if name := next((name for name, given in asked.items() if given), None):
        raise UsageError(
            f"--find-lr saves nothing, and --{name} is for a run",
            hint=f"leave --{name} out, and train with what is suggested: --lr F",
        )


def find_rate(trainer: "Trainer", stream: "Stream", steps_per_call: int, *, is_json: bool) -> int:
    """Prints what a range test of the data finds.

    Raises:
        OdtcError: as of `Trainer.find_learning_rate`.
    """
    # Imported here, for a quick `--help`.
    from odtc.cli.training.loop import notes
    from odtc.runtime_rpc.loop.rates.range_test import RangeTest

    test = RangeTest()
    with progress_of(test.points, 0) as update:

        def told(number: int, loss: float) -> None:
            update(number, f"learning rate {test.rate(number - 1):.2g}, loss {loss:.4f}")

        with notes():
            curve = test.run(trainer, stream, steps_per_call, told)
    if is_json:
        emit_json(curve.as_data())
    else:
        emit(*str(curve).splitlines())
    return ExitCode.OK
