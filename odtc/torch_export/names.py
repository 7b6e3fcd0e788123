"""Names in messages."""

from collections.abc import Iterable

_SHOWN = 20


def listed(names: Iterable[str]) -> str:
    """All of a few names, the first of many."""
    held = list(names)
    more = f", and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    return ", ".join(held[:_SHOWN]) + more
