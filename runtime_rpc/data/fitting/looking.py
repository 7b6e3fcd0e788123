"""Looks at what is fed without a run: arrays of all samples of an evaluation, batches of a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from odtc.core.specs import Argument
from odtc.runtime_rpc.data.fitting.said import (
    lost_of,
    note_of_numbers,
    notes_of_input,
    wrong_numbers,
)
from odtc.runtime_rpc.feed.arrays import as_array

Look = Callable[[np.ndarray, Argument], Iterator[str]]


def looked_at(x: Any, items: Sequence[Argument], look: Look) -> tuple[Any, list[str]]:
    """Inputs as arrays, and what is to be said of them.

    Args:
        x: an input, or inputs by name.
        items: the inputs of the step.
        look: says what there is to say of one.

    Returns:
        The arrays in the form of `x`. One array for several inputs stays as it is: evaluating it
        says which there are.

    Raises:
        DataError: one is no array.
    """
    is_named = isinstance(x, Mapping)
    if not is_named and len(items) != 1:
        return x, []
    given = x if is_named else {items[0].spec.name: x}
    arrays = {name: as_array(value, f"input {name}") for name, value in given.items()}
    found = [(item, arrays[item.spec.name]) for item in items if item.spec.name in arrays]
    notes = [note for item, array in found for note in look(array, item)]
    return (arrays if is_named else next(iter(arrays.values()))), notes


def look_of_prediction(array: np.ndarray, item: Argument) -> Iterator[str]:
    """What is to be said of an input that is predicted."""
    yield from notes_of_input(array, item, "data", is_predicted=True)


def look_of_evaluation(array: np.ndarray, item: Argument) -> Iterator[str]:
    """What is to be said of an input that is evaluated, which may be bytes that a model scales."""
    yield from note_of_numbers(array, item, "data", lost_of(is_predicted=True))


def hidden_numbers(fed: Mapping[Argument, np.ndarray]) -> str:
    """What is to be said of a batch whose loss may not show that it has numbers that are none.

    Infinities below all numbers are what masks of attention are made of.

    Args:
        fed: inputs and labels.
    """
    for item, array in fed.items():
        said = wrong_numbers(array, item)
        if said and not np.all(np.isfinite(array) | np.isneginf(array)):
            return said
    return ""
