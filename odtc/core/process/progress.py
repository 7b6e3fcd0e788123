"""How long work says where it is: a callable that takes the name of each stage as it starts."""

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(stage: str) -> None:
    """Says nothing."""
    del stage
