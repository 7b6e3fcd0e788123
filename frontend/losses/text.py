"""Losses as text: `cross-entropy{label-smoothing=0.1}`, `OUTPUT=0.3*mse`, and a file's name."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from odtc.core.errors import UsageError
from odtc.core.options.option_text import did_you_mean, format_options, parse_options
from odtc.frontend.losses.classification import NLL, CrossEntropy
from odtc.frontend.losses.elementwise import L1, MSE, BCEWithLogits, Huber, KLDiv, SmoothL1
from odtc.frontend.losses.given import InModel, LossGraph
from odtc.frontend.losses.loss import Loss

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (CrossEntropy, NLL, BCEWithLogits, MSE, L1, Huber, SmoothL1, KLDiv, InModel)
}
FORM = "cross-entropy{label-smoothing=0.1,ignore-index=-100}"

_GRAPH = ".onnx"
# What other libraries call them.
_CALLED = {
    "bce": "bce-with-logits",
    "binary-crossentropy": "bce-with-logits",
    "categorical-crossentropy": "cross-entropy{soft-labels=true}",
    "ce": "cross-entropy",
    "kl": "kl-div",
    "kl-divergence": "kl-div",
    "mae": "l1",
    "mean-absolute-error": "l1",
    "mean-squared-error": "mse",
    "sparse-categorical-crossentropy": "cross-entropy",
}
_TERM = re.compile(
    r"(?:(?P<output>.+?)=)?(?:(?P<weight>[-+.\deE]+)\*)?"
    rf"(?P<loss>[A-Za-z][\w-]*(?:\{{[^{{}}]*\}})?|.+\{_GRAPH})"
)
_FLAGS = {"true": True, "false": False}
_READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    bool: (_FLAGS.__getitem__, "true or false"),
    float: (float, "a number"),
    int: (int, "a whole number"),
    int | None: (int, "a whole number"),
    str: (str, "a word"),
    tuple[float, ...] | None: (
        lambda text: tuple(float(part) for part in text.split(":")),
        "numbers with colons between them",
    ),
}


def parse_loss(text: str) -> Loss | LossGraph:
    """Reads a loss, such as `mse`, `cross-entropy{ignore-index=-100}` or `my_loss.onnx`.

    Raises:
        UsageError: the text is malformed, or names a loss, an option or a value that is none.
    """
    if text.endswith(_GRAPH):
        return LossGraph(text)
    try:
        name, options = parse_options(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the loss {text!r}: {error}", hint=f"write mse or {FORM}"
        ) from error
    if name not in LOSSES:
        other = _CALLED.get(name.replace("_", "-").lower())
        near = f"did you mean {other}? " if other else did_you_mean(name, LOSSES)
        raise UsageError(
            f"unknown loss {name!r}", hint=f"{near}one of: {', '.join(LOSSES)}, or an ONNX file"
        )
    known = get_type_hints(LOSSES[name])
    fields = {field.name for field in dataclasses.fields(LOSSES[name])}
    values = {}
    for key, value in options.items():
        field = key.replace("-", "_")
        if field not in fields:
            written = [each.replace("_", "-") for each in sorted(fields)]
            raise UsageError(
                f"the loss {name} has no option {key!r}",
                hint=f"{did_you_mean(key, written)}it has {', '.join(written) or 'none'}",
            )
        values[field] = _read(key, value, known[field])
    try:
        return LOSSES[name](**values)
    except UsageError as error:
        raise UsageError(f"the loss {name}: {error.what}", hint=error.hint) from None


def split_term(text: str) -> tuple[str | None, float, Loss | LossGraph]:
    """Reads `OUTPUT=WEIGHT*LOSS`, where output and weight may be left out.

    Raises:
        UsageError: the text is malformed, or names a loss, an option or a value that is none.
    """
    match = _TERM.fullmatch(text.strip())
    if match is None:
        return None, 1.0, parse_loss(text)
    weight = _read("weight", match["weight"], float) if match["weight"] else 1.0
    return match["output"], weight, parse_loss(match["loss"])


def loss_text(loss: Loss) -> str:
    """The loss as text, with the options that differ from their defaults."""
    options = {
        field.name.replace("_", "-"): _written(getattr(loss, field.name))
        for field in dataclasses.fields(loss)
        if getattr(loss, field.name) != field.default
    }
    return format_options(loss.name, options)


def _read(key: str, text: str, kind: Any) -> Any:
    reader, form = _READERS[kind]
    try:
        return reader(text)
    except (KeyError, ValueError):
        raise UsageError(f"the loss's option {key} is {text!r}, which is not {form}") from None


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
