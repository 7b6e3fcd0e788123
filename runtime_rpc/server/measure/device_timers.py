"""Times of a GPU's commands by its own timers, converted to the clock of this process."""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

# What odtc's runtime for a kind of device calls a copy; all else is a kernel.
COPIES = ("upload", "download", "copy")


@dataclass(frozen=True)
class Command:
    """A kernel or a copy.

    Attributes:
        name: of it.
        begin: by the monotonic clock of this process, in seconds; `end` likewise.
        end: when the device was done with it.
    """

    name: str
    begin: float
    end: float


class DeviceTimers:
    """Commands of the first device of a kind, from `started` to `stop`.

    The device's clock is compared with the process's at both ends, by a small copy that is waited
    for, and runs evenly in between. One at a time watches.
    """

    _watching: ClassVar[set[str]] = set()

    def __init__(self, kind: str, watch: Any, count: Any, take: Any) -> None:
        import tvm

        self._kind, self._watch, self._count, self._take = kind, watch, count, take
        self._device = tvm.device(kind, 0)
        self._source, self._target = (
            tvm.runtime.empty((1,), "float32", device) for device in (tvm.cpu(), self._device)
        )
        self._took_first = self._copy()

    @classmethod
    def started(cls, kind: str) -> "DeviceTimers | None":
        """Begins to watch; None where the device has no timers for commands."""
        import tvm_ffi

        names = ("watch", "count_watched", "take_watched")
        asked = [tvm_ffi.get_global_func(f"odtc.{kind}.{name}", True) for name in names]
        found = [function for function in asked if function is not None]
        if len(found) < len(names) or kind in cls._watching:
            return None
        watch, count, take = found
        try:
            watch(True)
        except RuntimeError:
            return None
        take()
        timers = cls(kind, watch, count, take)
        cls._watching.add(kind)
        return timers

    def count(self) -> int:
        """Number of commands that were queued so far."""
        return int(self._count())

    def stop(self) -> list[Command]:
        """Ends it; waits for the device.

        Returns:
            What ran in between, in the order in which it was given; the first and the last are the
            copies that the clocks are compared by.

        Raises:
            RuntimeError: the device failed, or did not keep the times of all commands.
        """
        try:
            done, given = (self._took_first, self._copy()), self.count()
            lines = [line.rsplit(" ", 2) for line in str(self._take()).splitlines()]
            self._watch(False)
        finally:
            self._watching.discard(self._kind)
        if len(lines) < given:
            raise RuntimeError(f"the device kept the times of {len(lines)} of {given} commands")
        times = [(int(begin), int(end)) for _, begin, end in lines]
        ends = times[0][1], times[-1][1]
        pace = (done[1] - done[0]) / max(ends[1] - ends[0], 1)

        def host(ticks: int) -> float:
            return done[0] + (ticks - ends[0]) * pace

        return [
            Command(name, host(begin), host(end))
            for (name, *_), (begin, end) in zip(lines, times, strict=True)
        ]

    def _copy(self) -> float:
        """Runs a command on the device and returns the time at which it was done."""
        self._source.copyto(self._target)
        self._device.sync()
        return time.monotonic()
