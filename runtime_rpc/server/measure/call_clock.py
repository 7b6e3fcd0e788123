"""Times each call of a virtual machine, in its own process."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tvm

# Prefixes of the virtual machine's own functions between kernels: allocations, checks of shapes,
# views.
BOOKKEEPING = ("vm.", "runtime.")


class CallClock:
    """A clock at each call, from `start` to `stop`.

    Args:
        machine: whose calls are clocked.
    """

    def __init__(self, machine: "tvm.runtime.Module") -> None:
        self._machine = machine
        self._calls: list[tuple[str, float, float]] = []
        self._begin = 0.0

    def start(self) -> None:
        """Begins to take times."""
        self._machine["set_instrument"](self._note)

    def stop(self) -> dict[str, Any]:
        """Ends it.

        Returns:
            `names`, and `calls` in their order: number of the name, and when the call began and
            ended, by this process's monotonic clock in seconds.
        """
        self._machine["set_instrument"](None)
        numbers: dict[str, int] = {}
        calls = [(numbers.setdefault(name, len(numbers)), *times) for name, *times in self._calls]
        return {"names": list(numbers), "calls": calls}

    def _note(self, _: Any, name: str, before: bool, *__: Any) -> None:
        if before:
            self._begin = time.monotonic()
        else:
            self._calls.append((name, self._begin, time.monotonic()))
