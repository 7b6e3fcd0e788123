"""Mixtures of experts of transformers in a form that exporters write.

Their own form multiplies the tokens of each expert together, and how many those are the data
decides; no exporter has that. Another of theirs takes the matrices of the experts of each token.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

_APART = "batched_mm"
NOTE = (
    "experts are exported so that each token reads the matrices of its own experts: a step has "
    "room for as many of these as its tokens have experts"
)


@contextlib.contextmanager
def experts_of_each_token(module: nn.Module) -> Iterator[list[str]]:
    """A block in which experts are computed for each token apart.

    Yields:
        What is to be said of it; empty where nothing was changed.
    """
    before = [(model, model.get_experts_implementation()) for model in _with_experts(module)]
    try:
        for model, _ in before:
            # One that was fixed as the model was loaded stays.
            with contextlib.suppress(RuntimeError, ValueError):
                model.set_experts_implementation(_APART)
        is_other = any(model.get_experts_implementation() != own for model, own in before)
        yield [NOTE] if is_other else []
    finally:
        for model, own in reversed(before):
            with contextlib.suppress(RuntimeError, ValueError):
                model.set_experts_implementation(own)


def _with_experts(module: nn.Module) -> list[Any]:
    """Models of transformers that have a choice of how experts are computed; outer ones first."""
    return [part for part in module.modules() if hasattr(part, "get_experts_implementation")]
