"""What the native runtime's clock has noted, as a profile reads it."""

from collections.abc import Iterable
from typing import Any

# How the symbol of a kernel begins, before the name that plans know it by.
_SYMBOL = "__tvm_ffi_"


def plain_name(symbol: str) -> str:
    """The name that plans know a kernel by."""
    return symbol.removeprefix(_SYMBOL)


def clocked_calls(calls: Iterable[tuple[str, float, float]]) -> dict[str, Any]:
    """The calls as `CallClock.stop` gives them.

    Args:
        calls: the symbol of each kernel; when its call began and ended, in seconds.
    """
    numbers: dict[str, int] = {}
    found = [
        (numbers.setdefault(plain_name(kernel), len(numbers)), *times) for kernel, *times in calls
    ]
    return {"names": list(numbers), "calls": found}
