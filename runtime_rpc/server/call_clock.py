"""Takes the time of each call that a virtual machine makes, in the process that makes it."""

import time
from typing import Any

import tvm

_CPU = "cpu"
# What the virtual machine does between kernels: it allocates, checks shapes, makes views.
BOOKKEEPING = "vm."


class CallClock:
    """A clock at each call, from `start` to `stop`.

    A GPU is waited for before and behind each kernel, so that it has been computed when its time is
    taken.

    Args:
        machine: whose calls are clocked.
        kind: of its device, as TVM calls it.
    """

    def __init__(self, machine: tvm.runtime.Module, kind: str) -> None:
        self._machine, self._waited = machine, None if kind == _CPU else tvm.device(kind, 0)
        self._calls: list[tuple[str, float, float]] = []
        self._begin = 0.0

    def start(self) -> None:
        """Begins to take times."""
        self._machine["set_instrument"](self._note if self._waited is None else self._note_waiting)

    def stop(self) -> dict[str, Any]:
        """Ends it.

        Returns:
            `names`, and `calls` in their order: number of the name, and when the call began and
            ended, by this process's monotonic clock in seconds. `waited`: whether the device was
            waited for at each.
        """
        self._machine["set_instrument"](None)
        numbers: dict[str, int] = {}
        calls = [(numbers.setdefault(n, len(numbers)), begin, end) for n, begin, end in self._calls]
        return {"names": list(numbers), "calls": calls, "waited": self._waited is not None}

    def _note(self, _: Any, name: str, before: bool, *__: Any) -> None:
        if before:
            self._begin = time.monotonic()
        else:
            self._calls.append((name, self._begin, time.monotonic()))

    def _note_waiting(self, _: Any, name: str, before: bool, *__: Any) -> None:
        if self._waited is not None and not name.startswith(BOOKKEEPING):
            self._waited.sync()
        self._note(_, name, before)
