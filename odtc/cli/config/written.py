"""The text of an options file, from a few answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odtc.core.errors import UsageError

_HEAD = """\
# Options of odtc. `odtc config` tells what holds, `odtc COMMAND --help` what there is.
"""
_MORE = """\
# validation = "test.npz"  # measured each epoch
# patience = 3             # validations without a better one end the run
"""
# Steps that most models learn by, until somebody chooses others.
_OPTIMIZER, _LR, _EPOCHS = "adamw", 0.001, 3


@dataclass(frozen=True)
class Answers:
    """What a file is written from.

    Attributes:
        model: the ONNX file.
        data: the samples.
        target: that the step is compiled for.
        train: what is trained, as of `odtc compile --train`; empty for all.
        lora: options of adapters; empty for none.
        batch: samples in a step; None where the model has a fixed batch.
        loss: as of `odtc compile --loss`; empty for its default.
        shape: sizes of other dimensions, each `NAME=N`.
    """

    model: str
    data: str
    target: str
    train: Sequence[str] = ()
    lora: str = ""
    batch: int | None = None
    loss: Sequence[str] = ()
    shape: Sequence[str] = ()


def text_of(answers: Answers) -> str:
    """The file.

    Raises:
        UsageError: a name cannot be written into it.
    """
    artifact = f"{Path(answers.model).stem}.odtc"
    step = {
        "model": answers.model,
        "target": answers.target,
        "batch": answers.batch,
        "shape": [*answers.shape],
        "loss": [*answers.loss],
        "train": [*answers.train],
        "lora": answers.lora,
        "optimizer": _OPTIMIZER,
        "output": artifact,
    }
    run = {
        "artifact": artifact,
        "data": answers.data,
        "lr": _LR,
        "epochs": _EPOCHS,
        "checkpoint": f"{Path(answers.model).stem}.ckpt",
    }
    return f"{_HEAD}\n[compile]\n{_lines(step)}\n[train]\n{_lines(run)}{_MORE}"


def _lines(options: dict[str, str | int | float | list[str] | None]) -> str:
    return "".join(f"{key} = {_quoted(value)}\n" for key, value in options.items() if value)


def _quoted(value: str | int | float | list[str] | None) -> str:
    """A value as TOML has it, whose texts are those of JSON but for one character.

    Raises:
        UsageError: it is the name of a file that is no text.
    """
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "a name that is not UTF-8 cannot be written into an options file",
            where=repr(value),
            hint="give the file another name",
        ) from error
    return text
