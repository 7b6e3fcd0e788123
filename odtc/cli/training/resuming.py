"""`odtc train --resume`: whether what goes on is still the run that the checkpoint is of."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.switches import Switch
from odtc.core.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.data.source import Source
    from odtc.schedules import Schedule

# How `--resume` and `--resume-anyway` are noted.
SAME, ANYWAY = "same", "anyway"
# What `--resume-anyway` overrules, as its help and the manual have it.
OVERRULED = (
    "the data, the seed, the augmentations, the schedule, the batch, the loss, the precision, the "
    "options of the optimizer and of the update, which parameters are trained, and inputs that "
    "were set"
)


def add_resume_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--resume",
        action=Switch,
        on=SAME,
        off=None,
        help="continue the run from the checkpoint; refused if that would make it a different run",
    )
    how.add_argument(
        "--resume-anyway",
        dest="resume",
        action="store_const",
        const=ANYWAY,
        help=f"continue the run even if some of these have changed: {OVERRULED}",
    )


def run_identity(
    source: "Source", seed: int, schedule: "Schedule", augment: Sequence[str] = ()
) -> dict[str, str]:
    """The identity of a run, beside the compiled step."""
    return {
        "data": f"{len(source)} samples, sha256 {source.digest()}",
        "seed": str(seed),
        "schedule": str(schedule),
        "augment": " ".join(augment) or "none",
    }


def check_replaced(checkpoint: Path, total: int, adapter: str | None = None) -> None:
    """Says that a run that begins anew replaces a checkpoint, or an adapter of it.

    Args:
        checkpoint: the file, which there is.
        total: steps of the run.
        adapter: the one of several that is replaced; None where the file is.

    Raises:
        UsageError: it is of more steps than that: whoever forgot `--resume` would lose them.
    """
    from odtc.runtime_rpc.state.checkpoint import read_adapter_steps, read_step

    try:
        step = read_adapter_steps(checkpoint)[adapter] if adapter else read_step(checkpoint)
    except ArtifactError:
        say(f"note: {checkpoint} will be replaced; it is not a checkpoint that can be resumed")
        return
    if step > total:
        what, anew = "the checkpoint", "give another --checkpoint, or remove it, to begin anew"
        if adapter:
            what = f"the checkpoint's adapter {adapter}"
            anew = "to begin anew, give another name, or drop this one: trainer.delete_adapter"
        raise UsageError(
            f"{what} is of step {step}, and this run of {total} steps would replace it",
            where=str(checkpoint),
            hint=f"pass --resume and more steps to go on with it; {anew}",
        )
    what = (
        f"the adapter {adapter}, of step {step} in {checkpoint},"
        if adapter
        else (f"{checkpoint} of step {step}")
    )
    stays = "; the others stay" if adapter else ""
    say(f"note: {what} will be replaced{stays}; --resume would continue it")


def check_same_run(
    checkpoint: Path,
    manifest: "Manifest",
    run: dict[str, str],
    adapter: str | None = None,
    *,
    anyway: bool,
) -> None:
    """Says what changed since the checkpoint was written.

    Args:
        checkpoint: the file.
        manifest: of the step that goes on.
        run: its identity now.
        adapter: whose run it is; that at work in the checkpoint by default.
        anyway: whether another run may take it up.

    Raises:
        ArtifactError: it is missing or damaged; or it would not be the same run any more, which
            nobody asked for.
    """
    from odtc.runtime_rpc.state.checkpoint import read_run
    from odtc.runtime_rpc.state.same_run import changes, step_identity

    own = step_identity(manifest)
    before = read_run(checkpoint, adapter, own)
    if before is None or not before.keys() & run.keys():
        say(
            f"note: {checkpoint} does not say which data, seed and schedule it was written "
            "with: whether they are the same was not checked"
        )
    found = changes(before or {}, run | own)
    others = [change for change in found if change.makes_another_run]
    if others and not anyway:
        lines = "\n".join(f"  {change}" for change in others)
        raise ArtifactError(
            f"the checkpoint is from a different run:\n{lines}",
            where=str(checkpoint),
            hint="give what it was written with, or pass --resume-anyway to go on with what is "
            "given now",
        )
    for change in found:
        say(f"note: since the checkpoint was written, this changed: {change}")
