"""Options that change nothing where something else is so: what is asked for is told, not dropped.

A table has a row for each such option and case; whoever knows the facts says which rows hold.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Idle(Generic[T]):
    """An option that may change nothing.

    Attributes:
        option: its name, as an argument.
        is_given: whether it was asked for.
        is_idle: whether it changes nothing then.
        why: what is so.
        part: what of its value changes nothing, where that may be a part of it.
    """

    option: str
    is_given: Callable[[T], bool]
    is_idle: Callable[[T], bool]
    why: str
    part: Callable[[T], str] = lambda _: ""


def said_of_idle(
    table: Sequence[Idle[T]], facts: T, called: Callable[[str], str] = str
) -> Iterator[str]:
    """Says which options, or parts of them, were given and change nothing, each once.

    Args:
        table: of options; of several rows of one, the first that holds tells why.
        facts: what was given, and what is so.
        called: what an option is called, such as `flag_of` where it is one of the command line.
    """
    told = set()
    for row in table:
        if not row.is_given(facts) or not row.is_idle(facts):
            continue
        given = " ".join(filter(None, (called(row.option), row.part(facts))))
        if given not in told:
            told.add(given)
            yield f"{given} changes nothing: {row.why}"


def flag_of(option: str) -> str:
    """The flag of an option by its name as an argument."""
    return f"--{option.replace('_', '-')}"
