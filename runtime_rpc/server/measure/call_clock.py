"""Times each call of a virtual machine, in its own process."""

import time
from typing import TYPE_CHECKING, Any

from odtc.runtime_rpc.server.measure.device_timers import COPIES, Command, DeviceTimers

if TYPE_CHECKING:
    import tvm

_CPU = "cpu"
# Prefixes of the virtual machine's own functions between kernels: allocations, checks of shapes,
# views.
BOOKKEEPING = ("vm.", "runtime.")
# A call's name, begin and end, and the commands that the device had been given before and after.
_Call = tuple[str, float, float, int, int]


class CallClock:
    """A clock at each call, from `start` to `stop`.

    Of a GPU, kernels have the times of its own timers. One that has none is waited for before and
    after each kernel, so that it has been computed when its time is taken.

    Args:
        machine: whose calls are clocked.
        kind: of its device, as TVM calls it.
    """

    def __init__(self, machine: "tvm.runtime.Module", kind: str) -> None:
        self._machine, self._kind = machine, kind
        self._timers: DeviceTimers | None = None
        self._waited: Any = None
        self._calls: list[_Call] = []
        self._begin, self._given = 0.0, 0

    def start(self) -> None:
        """Begins to take times."""
        if self._kind != _CPU:
            import tvm

            self._timers = DeviceTimers.started(self._kind)
            self._waited = None if self._timers else tvm.device(self._kind, 0)
        self._machine["set_instrument"](self._note if self._waited is None else self._note_waiting)

    def stop(self) -> dict[str, Any]:
        """Ends it.

        Returns:
            `names`, and `calls` in their order: number of the name, and when the call began and
            ended, by this process's monotonic clock in seconds. `waited`: whether the device was
            waited for at each. `copies`, where the device has timers: kind, begin and end of each.
        """
        self._machine["set_instrument"](None)
        numbers: dict[str, int] = {}
        commands = self._timers.stop() if self._timers else []
        calls = [
            (numbers.setdefault(call[0], len(numbers)), *_times(call, commands))
            for call in self._calls
        ]
        found = {"names": list(numbers), "calls": calls, "waited": self._waited is not None}
        if self._timers:
            # Without the commands that compare the clocks.
            copies = [each for each in commands[1:-1] if each.name in COPIES]
            found["copies"] = [(each.name, each.begin, each.end) for each in copies]
        return found

    def _note(self, _: Any, name: str, before: bool, *__: Any) -> None:
        given = self._timers.count() if self._timers else 0
        if before:
            self._begin, self._given = time.monotonic(), given
        else:
            self._calls.append((name, self._begin, time.monotonic(), self._given, given))

    def _note_waiting(self, _: Any, name: str, before: bool, *__: Any) -> None:
        if not name.startswith(BOOKKEEPING):
            self._waited.sync()
        self._note(_, name, before)


def _times(call: _Call, commands: list[Command]) -> tuple[float, float]:
    """Returns the begin and end of a call, by the device's timers if they have commands of it."""
    name, begin, end, first, last = call
    kernels = [each for each in commands[first:last] if each.name not in COPIES]
    if not kernels or name.startswith(BOOKKEEPING):
        return begin, end
    return kernels[0].begin, kernels[-1].end
