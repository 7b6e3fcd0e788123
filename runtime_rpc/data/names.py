"""Names of arrays, columns and classes: what labels may be called, and how they are told."""

from collections.abc import Callable, Sequence

from odtc.core.printable import printable

LABELS = ("y", "label", "labels", "target")
"""What the only label may be called beside its own name, in tables and in datasets."""
_SHOWN = 20
ToldSample = Callable[[int], str]
"""What a sample is called in messages, by its number in an array."""


def told(name: str) -> str:
    """A name in a message; of a column it may be empty, as that of an index in a CSV."""
    return printable(name) or "(no name)"


def listed(names: Sequence[str]) -> str:
    """The first of many names, in one line."""
    more = len(names) - _SHOWN
    return ", ".join(map(told, names[:_SHOWN])) + (f", and {more} more" if more > 0 else "")


def classes_text(names: Sequence[str]) -> str:
    """The classes by their numbers, for a note."""
    return f"classes are {listed([f'{number} {name}' for number, name in enumerate(names)])}"


def sample_of_all(number: int) -> str:
    """What a sample of all that there are is called."""
    return f"sample {number}"


def sample_of_batch(number: int) -> str:
    """What a sample is called of which nobody knows more than its place in a batch."""
    return f"sample {number} of its batch"


def sample_among(numbers: Sequence[int]) -> ToldSample:
    """What samples of a batch are called that were asked for by their numbers."""
    return lambda number: f"sample {numbers[number]}"
