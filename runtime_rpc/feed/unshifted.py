"""Finds labels of a language model that are the tokens themselves, and not those that follow."""

from collections.abc import Mapping

import numpy as np

from odtc.core.printable import printable
from odtc.core.specs import Argument, Role

# Of a batch of rows of tokens: samples, and places.
_AXES = 2


def note_of_unshifted(fed: Mapping[Argument, np.ndarray]) -> str:
    """What is to be said of the labels of a batch that repeat an input token by token.

    Models of transformers shift labels themselves, so its collators give the tokens as they are,
    with -100 where none is learned. A step compares each output with the label at its own place.

    Args:
        fed: the arrays of a whole step, by what they are for.

    Returns:
        The text; empty where no label repeats an input.
    """
    tokens = [(i, a) for i, a in fed.items() if i.role is Role.INPUT and a.dtype.kind in "iu"]
    for item, labels in fed.items():
        if item.role is not Role.LABEL or item.classes is None or labels.ndim != _AXES:
            continue
        learned = labels != item.classes.ignored if item.classes.ignored is not None else ...
        for other, array in tokens:
            # Rows of one token, such as zeros of a first try, say nothing.
            if array.shape != labels.shape or len(np.unique(labels[learned])) <= 1:
                continue
            if np.array_equal(array[learned], labels[learned]):
                return _text(printable(item.spec.name), printable(other.spec.name))
    return ""


def _text(label: str, tokens: str) -> str:
    return (
        f"{label} is {tokens} itself, token by token: this trains the model to repeat what it "
        "reads. Labels are not shifted here, as models of transformers do it: for the token that "
        f"follows, feed {tokens}[:, 1:], with a label that the loss ignores at the end of each row,"
        " or give fit the texts with tokenizer="
    )
