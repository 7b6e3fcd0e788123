"""The summary that `odtc train` prints: one line, or one object."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, say
from odtc.cli.interrupts import StopRequest
from odtc.cli.training.loop import Done
from odtc.runtime_rpc.loop.history import for_json

if TYPE_CHECKING:
    from odtc.runtime_rpc.export.write import Exported
    from odtc.runtime_rpc.loop.history import History, Row

# Key of the summary to how the line for people has it.
_PHRASES = {
    "steps": "{} steps",
    "loss": "loss {:.4f}",
    "time": "{}",
    "samples_per_second": "{:.0f} samples/s",
    "val_loss": "validation loss {:.4f}",
    "val_perplexity": "validation perplexity {:.4g}",
    "eval_loss": "evaluation loss {:.4f}",
    "accuracy": "accuracy {:.2%}",
    "perplexity": "perplexity {:.4g}",
    "adapters": "adapters in {}",
    "peft": "adapters for PEFT in {}",
    "gguf": "adapters for llama.cpp in {}",
}


@dataclass(frozen=True)
class Finished:
    """The result of a run that came to its end.

    Attributes:
        steps: those of the runs that it went on from, too.
        exported: the model that was written; None if none was.
        evaluated: on samples that were held out, by name; nothing where there are none.
        history: what was measured on the way.
        best: the best row of it; None where nothing asks.
        is_restored: whether the weights at the end are those of the best row, and not of the last.
    """

    steps: int
    exported: "Exported | None"
    evaluated: dict[str, float]
    history: "History"
    best: "Row | None"
    is_restored: bool


def print_summary(
    found: Finished, done: Done, batch: int, files: dict[str, Path | None], *, is_json: bool
) -> None:
    """Prints what a run came to.

    Args:
        found: at its end.
        done: what it did.
        batch: samples in a step.
        files: that it wrote, by what they are; None where it did not.
        is_json: whether it is printed as an object.
    """
    exported, summary = found.exported, _as_data(found, done, batch, files)
    if is_json:
        data = {"exported": exported.path, "export": exported.as_data()} if exported else {}
        emit_json(summary | data)
    else:
        emit(_line(summary, done), *([str(exported)] if exported else []))


def say_ended(asked: StopRequest, step: int, total: int, checkpoint: Path | None) -> None:
    """Says that a signal ended the run, and how it goes on."""
    say(f"{asked.word} after step {step} of {total}")
    if checkpoint:
        say(f"saved {checkpoint}; run the same command with --resume to go on")
    else:
        say("nothing was saved; pass --checkpoint FILE to be able to go on")


def _as_data(
    found: Finished, done: Done, batch: int, files: dict[str, Path | None]
) -> dict[str, Any]:
    """The run as data. Times of an emulated device are no results: they are left out.

    Those of the first steps on a GPU, in which its driver compiles, are in no mean.
    """
    data: dict[str, Any] = {"steps": found.steps, "steps_taken": done.steps, "loss": done.loss}
    if done.steps and not done.emulated:
        if done.step_ms is not None:
            data["step_ms"] = done.step_ms
            data["samples_per_second"] = 1000 * batch / done.step_ms
        if done.apart:
            data |= {"first_steps": done.apart, "first_steps_ms": done.apart_ms}
    data["emulated"] = done.emulated
    data |= {name: str(path) for name, path in files.items() if path}
    data |= for_json(found.evaluated)
    rows = found.history.as_data()
    if rows:
        kept = for_json(found.best) if found.best and found.is_restored else rows[-1]
        data |= {key: value for key, value in kept.items() if key.startswith("val_")}
    data |= {"history": rows, "stopped": found.history.stopped or None}
    data |= {"class_names": [*names]} if (names := found.history.class_names) else {}
    return data | ({"best": for_json(found.best)} if found.best else {})


def _line(summary: dict[str, Any], done: Done) -> str:
    shown = summary | ({"time": done.time_text()} if done.steps else {})
    if done.step_ms is not None and (apart := done.apart_text()):
        shown["time"] += f" without the {apart}"
    return ", ".join(
        phrase.format(shown[key]) for key, phrase in _PHRASES.items() if shown.get(key) is not None
    )
