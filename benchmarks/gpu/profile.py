"""Profile of a step on the device, by the device's own timers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm.runtime.vm import VirtualMachine

from benchmarks.kernel_time.calls import KernelCall, call_of
from odtc.runtime_rpc.server.measure.call_clock import BOOKKEEPING

# What a runtime calls the commands that move data between host and device.
MOVES = ("upload", "download")
_FLOAT_BYTES = 4

# A command's name, and when it began and ended, in nanoseconds.
_Command = tuple[str, int, int]


class CommandWatch:
    """Watches a kind of device within a block; its first steps are not reported."""

    def __init__(self, kind: str, step: Callable[[], Any]) -> None:
        self._watch, self._count, self._take = (
            tvm_ffi.get_global_func(f"odtc.{kind}.{name}")
            for name in ("watch", "count_watched", "take_watched")
        )
        self._step = step

    def __enter__(self) -> "CommandWatch":
        self._watch(True)
        self._step()
        self._step()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch(False)

    def commands(self) -> list[_Command]:
        """Runs a step and returns its commands on the device."""
        self._take()
        self._step()
        lines = [line.split() for line in str(self._take()).splitlines()]
        return [(name, int(begin), int(end)) for name, begin, end in lines]

    def calls(self, machine: VirtualMachine) -> list[KernelCall]:
        """The calls of one step's kernels, each with the time of its commands on the device."""
        noted: list[tuple[KernelCall, int, int]] = []
        given = 0

        def note(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> None:
            nonlocal given
            if name.startswith(BOOKKEEPING):
                return
            if before:
                given = int(self._count())
            else:
                noted.append((call_of(name, arguments, 0.0), given, int(self._count())))

        machine.set_instrument(note)
        try:
            commands = self.commands()
        finally:
            machine.set_instrument(None)
        return [_timed(call, commands[first:last]) for call, first, last in noted]


def _timed(call: KernelCall, commands: Sequence[_Command]) -> KernelCall:
    """A call with the time of its commands, and without its workspace.

    A sum that is computed in parts has its parts (count, elements of the result) after its result,
    and a second kernel, which adds them.
    """
    own = [end - begin for name, begin, end in commands if name not in MOVES]
    shapes, moved = call.shapes, call.bytes
    if len(own) > 1 and shapes[-1][1:] == call.sizes[-2:-1]:
        shapes, moved = shapes[:-1], moved - _FLOAT_BYTES * call.sizes[-1]
    return KernelCall(call.name, shapes, moved, sum(own) / 1e9)


def shares_of(commands: Sequence[_Command]) -> dict[str, Any]:
    """Where a step's time on the device goes, in nanoseconds.

    Of uploads and downloads only what no kernel hides; `gaps` are when nothing runs.
    """
    kernels: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, start, end in commands:
        kernels[name][0] += 1
        kernels[name][1] += end - start
    # The last upload is the next step's: what of it is after the kernels, the next step waits for.
    span = max(end for *_, end in commands) - min(start for _, start, _ in commands)
    computing = covered([(s, e) for name, s, e in commands if name not in MOVES])
    busy = covered([(s, e) for _, s, e in commands])
    found = {"span": span, "kernels": computing, "moves": busy - computing, "gaps": span - busy}
    return found | {"commands": len(commands), "by_name": kernels}


def covered(spans: Sequence[tuple[int, int]]) -> int:
    """How long at least one of some spans lasts."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total
