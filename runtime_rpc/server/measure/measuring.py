"""Functions that let a client measure a process on a device; they take and return text.

A start gives the number of what it started, by which it is stopped.
"""

import json
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

from odtc.runtime_rpc.server.measure.frequency import cap_frequency, uncap_frequency
from odtc.runtime_rpc.server.measure.sampler import Sampler

if TYPE_CHECKING:
    import tvm

CAP_FREQUENCY, UNCAP_FREQUENCY = "odtc.cap_frequency", "odtc.uncap_frequency"
START_SAMPLING, START_CLOCK, STOP = "odtc.start_sampling", "odtc.start_clock", "odtc.stop_measuring"


class _Measuring(Protocol):
    def start(self) -> None: ...

    def stop(self) -> dict: ...


_numbers = count()
_running: dict[int, _Measuring] = {}


def _start(measuring: _Measuring) -> int:
    number = next(_numbers)
    _running[number] = measuring
    measuring.start()
    return number


def _start_sampling(period: float, root: str) -> int:
    return _start(Sampler(period, root))


def _start_clock(machine: "tvm.runtime.Module") -> int:
    # It is there with the machine.
    from odtc.runtime_rpc.server.measure.call_clock import CallClock

    return _start(CallClock(machine))


def _stop(number: int) -> str:
    return json.dumps(_running.pop(number).stop())


FUNCTIONS: dict[str, Callable] = {
    START_SAMPLING: _start_sampling,
    START_CLOCK: _start_clock,
    STOP: _stop,
    CAP_FREQUENCY: cap_frequency,
    UNCAP_FREQUENCY: uncap_frequency,
}
