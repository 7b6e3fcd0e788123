"""The sum that is minimised: weighted losses, each on one output of the model."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odtc.core.errors import UsageError
from odtc.core.options.arguments import read_argument, read_fields
from odtc.core.options.checked_options import LEAST_FLOAT32, MOST_FLOAT32
from odtc.core.options.kinds import REAL, TEXT, optional, shown
from odtc.frontend.losses.given import LossGraph
from odtc.frontend.losses.loss import Loss
from odtc.frontend.losses.text import loss_text, parse_loss, split_term

OneLoss = str | os.PathLike[str] | Loss | LossGraph
# What a user may give: a loss on the first output, or one for each output, perhaps with a weight.
Losses = OneLoss | Mapping[str, OneLoss | tuple[float, OneLoss]]


@dataclass(frozen=True)
class Term:
    """A loss on an output.

    Attributes:
        loss: the loss.
        output: name of the output in the ONNX model; None for the first.
        weight: factor of the loss in the sum, above 0.

    Raises:
        UsageError: the weight is not a finite number above 0 in float32.
    """

    loss: Loss | LossGraph
    output: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        read_fields(self, {"output": optional(TEXT), "weight": REAL})
        if not LEAST_FLOAT32 <= self.weight <= MOST_FLOAT32:
            raise UsageError(
                f"the weight {self.weight} of the loss on {self.output!r} is not a number above 0 "
                "in float32",
                hint="leave the output out to ignore it",
            )

    def __str__(self) -> str:
        text = str(self.loss.path) if isinstance(self.loss, LossGraph) else loss_text(self.loss)
        weighted = text if self.weight == 1.0 else f"{self.weight}*{text}"
        return weighted if self.output is None else f"{self.output}={weighted}"


def terms_of(losses: "Losses | Sequence[Term | str]") -> tuple[Term, ...]:
    """The terms that a user gives.

    Raises:
        UsageError: a loss is unknown, or they do not go together.
    """
    if isinstance(losses, Mapping):
        return _checked([_term(output, given) for output, given in losses.items()])
    if isinstance(losses, Sequence) and not isinstance(losses, str | bytes):
        return _checked([_one(each) for each in losses])
    return (_one(losses),)


def _one(given: Any) -> Term:
    """A term by itself: made already, as the command line has it, or a loss on the first output."""
    if isinstance(given, str):
        output, weight, loss = split_term(given)
        return Term(loss, output, weight)
    return given if isinstance(given, Term) else Term(_loss(given))


def _term(output: str, given: Any) -> Term:
    """The term of an output.

    Raises:
        UsageError: what is given is no loss, and no pair of a weight and one.
    """
    read_argument(TEXT, output, "a name of an output in loss", "loss")
    if not isinstance(given, tuple):
        return Term(_loss(given), output)
    if len(given) != 2:
        raise UsageError(
            f"the loss of {output!r} is a tuple of {len(given)}",
            where="loss",
            hint="give a loss, or a pair of its weight and a loss: (0.3, 'mse')",
        )
    weight = read_argument(REAL, given[0], f"the weight of the loss of {output!r}", "loss")
    return Term(_loss(given[1]), output, weight)


def parse_terms(texts: Sequence[str]) -> tuple[Term, ...]:
    """Reads terms such as `mse`, or `logits=cross-entropy` and `aux=0.3*cross-entropy`.

    Raises:
        UsageError: a text is malformed, or they do not go together.
    """
    return _checked([Term(loss, output, weight) for output, weight, loss in map(split_term, texts)])


def terms_text(terms: Sequence[Term]) -> str:
    """The terms as one text."""
    return " ".join(map(str, terms))


def _loss(given: OneLoss) -> Loss | LossGraph:
    if isinstance(given, str | os.PathLike):
        return parse_loss(os.fspath(given))
    if not isinstance(given, Loss | LossGraph):
        raise UsageError(
            f"the loss is {shown(given)}, and none of odtc's",
            where="loss",
            hint="give one of odtc's, such as odtc.CrossEntropy(), or its text, such as "
            "cross-entropy; PyTorch's own go into the module: let forward return the loss",
        )
    return given


def _checked(terms: Sequence[Term]) -> tuple[Term, ...]:
    outputs = [term.output for term in terms]
    if not terms:
        raise UsageError("no loss is given", hint="give one, such as cross-entropy")
    if len(terms) > 1 and None in outputs:
        raise UsageError(
            "with several losses, each needs an output",
            hint="write OUTPUT=LOSS, such as logits=cross-entropy",
        )
    twice = next((name for name in outputs if outputs.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the output {twice!r} has two losses", hint="give it one")
    if any(isinstance(term.loss, LossGraph) for term in terms) and outputs != [None]:
        raise UsageError(
            "a loss in a file is the loss of the whole model",
            hint="name its inputs like the model's outputs, and give it alone",
        )
    return tuple(terms)
