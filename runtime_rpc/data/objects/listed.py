"""Lists with a sample in each item, which are no lists of batches: told by the first of them.

A sample has the shape of what a step takes without the axis that samples lie along; a batch has
that axis, too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import LABELS
from odtc.runtime_rpc.data.objects.indexed import is_indexed
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.data.text.feed import takes_tokens
from odtc.runtime_rpc.data.wanted import Wanted

_TOKENS = "input_ids"


def are_rows(data: Any, wanted: Wanted) -> bool:
    """Whether it is a list of samples: pairs, or arrays by name."""
    if not isinstance(data, list | tuple) or not data:
        return False
    first = data[0]
    # Of a list of arrays that are predicted, each is a sample of an array.
    if not isinstance(first, Mapping | list | tuple) or not first:
        return False
    naming = Naming(wanted.inputs, wanted.labels, "data", "a sample", wanted.inputs_alone)
    try:
        named = naming.named(first)
        return all(
            _is_as(_shape(named[item.spec.name]), shape, open_axes)
            for item, shape, open_axes in _of_a_sample(wanted)
        )
    except (DataError, TypeError, ValueError):
        # Another kind of data says what is wrong with it.
        return False


def are_token_rows(data: Any, wanted: Wanted) -> bool:
    """Whether it has rows of tokens for a language model, as a tokenizer gives them.

    A Dataset that has labels gives them as a step compares them, and is none; nor is one that is
    predicted, whose rows are fed as they are.
    """
    is_list = isinstance(data, list | tuple)
    if not is_list and (wanted.inputs_alone or not is_indexed(data)):
        return False
    if not takes_tokens(wanted) or not len(data) or not isinstance(first := data[0], Mapping):
        return False
    labels = (*LABELS, *(item.spec.name for item in wanted.labels))
    if not is_list and any(name in first for name in labels):
        return False
    try:
        return len(_shape(first[_TOKENS])) == 1
    except (KeyError, TypeError, ValueError):
        return False


def _of_a_sample(wanted: Wanted) -> list[tuple[Argument, tuple[int, ...], set[int]]]:
    """Inputs and labels, with the shape of each in a sample and the axes that have any length.

    Raises:
        ValueError: one has no samples, or several of a sample's numbers lie along their axis.
    """
    found = []
    for item in (*wanted.inputs, *wanted.read_labels):
        place, shape, name = item.place, item.spec.shape, item.spec.name
        if place is None or (place.outer, place.inner) != (1, 1):
            raise ValueError(item.spec)
        axes = wanted.rows[name].axes if wanted.rows and name in wanted.rows else ()
        of_a_sample = (*shape[: place.axis], *shape[place.axis + 1 :])
        found.append((item, of_a_sample, {axis - (axis > place.axis) for axis in axes}))
    return found


def _is_as(found: tuple[int, ...], wanted: tuple[int, ...], open_axes: set[int]) -> bool:
    """Whether a shape is another one, but for axes that have any length."""
    return len(found) == len(wanted) and all(
        axis in open_axes or size == wanted[axis] for axis, size in enumerate(found)
    )


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
