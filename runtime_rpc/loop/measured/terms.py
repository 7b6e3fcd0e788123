"""The terms of a step's loss, from the text that its manifest has: of which output each is."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.options.option_text import parse_options
from odtc.core.specs import Argument

IN_MODEL = "in-model"
_WEIGHTED = re.compile(r"(?:(?P<weight>[-+.\deE]+)\*)?(?P<loss>.*)", re.DOTALL)


@dataclass(frozen=True)
class LossTerm:
    """A part of a loss.

    Attributes:
        evaluation: of the output that it is of.
        label: that goes with it; None where the model computes the loss.
        weight: of the term.
        name: of the loss.
        options: as its text has them.
    """

    evaluation: Evaluation
    label: Argument | None
    weight: float
    name: str
    options: dict[str, str]


def loss_terms(manifest: Manifest) -> tuple[LossTerm, ...]:
    """The terms whose outputs can be evaluated: all of them, or none.

    None where the loss is a graph of its own, or an output beside those that are evaluated.
    """
    known = {each.output.name: each for each in manifest.evaluations}
    found = []
    for output, text in _texts(manifest.loss, [*known]):
        match = _WEIGHTED.fullmatch(text)
        assert match
        try:
            name, options = parse_options(match["loss"])
        except ValueError:
            return ()
        evaluation = known.get(output or "", manifest.evaluations[0])
        label = None if name == IN_MODEL else label_of(manifest, evaluation)
        # What is evaluated beside a loss that the model computes is not that loss.
        if label is None and (name != IN_MODEL or evaluation.place or len(evaluation.output.shape)):
            return ()
        found.append(LossTerm(evaluation, label, float(match["weight"] or 1), name, options))
    return tuple(found)


def label_of(manifest: Manifest, evaluation: Evaluation) -> Argument | None:
    """The label that is compared with an output; None where there is none."""
    labels, output = manifest.labels, evaluation.output.name
    named = [item for item in labels if item.spec.name in (output, f"label_of_{output}")]
    return next(iter(named or labels), None) if named or len(labels) == 1 else None


def _texts(loss: str, outputs: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """The output and the loss of each term of a text such as `a=mse b=0.3*l1`."""
    names = "|".join(re.escape(name) for name in sorted(outputs, key=len, reverse=True))
    starts = [*re.finditer(rf"(?:^| )({names})=", loss)] if outputs else []
    if not starts or starts[0].start():
        yield None, loss
        return
    ends = [each.start() for each in starts[1:]] + [len(loss)]
    for start, end in zip(starts, ends, strict=True):
        yield start[1], loss[start.end() : end]
