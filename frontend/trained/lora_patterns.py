"""Numbers of an adapter by the name of its weight: `*q_proj*:4|*down_proj*:16`.

What PEFT has as `rank_pattern` and `alpha_pattern`, with globs over ONNX names. The first glob that
matches counts.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TypeVar

from odtc.core.errors import UsageError

Number = TypeVar("Number", int, float)
Patterns = tuple[tuple[str, Number], ...]


def read_patterns(option: str, text: str | None, kind: type[Number]) -> Patterns[Number]:
    """The globs of a text, each with its number; none of no text.

    Args:
        option: for messages.
        text: pairs of glob and number, with `:` between, separated by `|`.
        kind: of the numbers: `int`, of at least 1, or `float`, above 0 and finite.

    Raises:
        UsageError: the text is malformed, or a number is out of its range.
    """
    found = []
    for pair in (text or "").split("|") if text else ():
        glob, colon, number = pair.strip().rpartition(":")
        try:
            value = kind(number)
        except ValueError:
            value = kind(0)
        if not (glob and colon and 0 < value < float("inf")):
            wanted = "a whole number of at least 1" if kind is int else "a number above 0"
            raise UsageError(
                f"{option} {text!r}: {pair!r} is not a glob with {wanted}",
                hint=f"write, for example, {option}=*q_proj*:4|*down_proj*:16",
            )
        found.append((glob, value))
    return tuple(found)


def number_of(patterns: Patterns[Number], weight: str, usual: Number) -> Number:
    """What holds for a weight."""
    return next((value for glob, value in patterns if fnmatchcase(weight, glob)), usual)


def require_matches(option: str, patterns: Patterns[Number], weights: Collection[str]) -> None:
    """Checks that each glob matches the weight of an adapter.

    Raises:
        UsageError: one does not.
    """
    for glob, _ in patterns:
        if not any(fnmatchcase(weight, glob) for weight in weights):
            raise UsageError(
                f"LoRA: no adapted weight matches {glob!r} of {option}",
                hint="`odtc check MODEL --all` lists the parameters' names",
            )
