"""A profile as a trace for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

The format is the trace-event format's JSON object: complete events (`X`) with begin and duration in
microseconds, counters (`C`), and metadata (`M`) that names processes and threads.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from odtc.core.disk.files import atomic_write
from odtc.core.disk.sendable import sendable
from odtc.runtime_rpc.profile.record import Profile
from odtc.runtime_rpc.server.measure.sources import unit_of

_DEVICE, _HOST, _STATE = 1, 2, 3
_STEPS, _OPERATORS, _MEMORY = 1, 2, "arena, bytes alive"
EMULATED = "emulated, not a measurement"

_Event = dict[str, Any]


def write_trace(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Writes the trace, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(sendable(trace_of(profile))), encoding="utf-8")


def trace_of(profile: Profile) -> dict[str, Any]:
    """The trace, as the object that becomes JSON."""
    return {
        "traceEvents": [*_names(profile), *_steps(profile), *_moves(profile), *_counters(profile)],
        "displayTimeUnit": "ms",
        "otherData": {
            "model": profile.model,
            "device": profile.device,
            "emulated": profile.emulated,
            "fixture": profile.samples.fixture,
        },
    }


def _names(profile: Profile) -> Iterator[_Event]:
    stamp = f" ({EMULATED})" if profile.emulated else ""
    fixture = " (fixture)" if profile.samples.fixture else ""
    processes = {
        _DEVICE: f"{profile.device}{stamp}",
        _HOST: "data movement, as the host saw it",
        _STATE: f"state of the device{stamp}{fixture}",
    }
    for process, name in processes.items():
        yield _meta("process_name", process, 0, name)
        yield {
            "name": "process_sort_index",
            "ph": "M",
            "pid": process,
            "tid": 0,
            "args": {"sort_index": process},
        }
    yield _meta("thread_name", _DEVICE, _STEPS, "steps")
    yield _meta("thread_name", _DEVICE, _OPERATORS, "operators")
    yield _meta("thread_name", _HOST, _STEPS, "moves")


def _meta(kind: str, process: int, thread: int, name: str) -> _Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _steps(profile: Profile) -> Iterator[_Event]:
    began = profile.began
    for number, step in enumerate(profile.steps):
        for part, run in enumerate(step):
            of = f", micro-batch {part}" if len(step) > 1 else ""
            yield _complete(
                f"step {number}{of}", "step", (run.begin, run.end), began, (_DEVICE, _STEPS)
            )
            for call in run.calls:
                operator = profile.operators[call.operator]
                yield _complete(
                    operator.label,
                    operator.phase.value,
                    (call.begin, call.end),
                    began,
                    (_DEVICE, _OPERATORS),
                    {"kernel": operator.kernel, "live_bytes": operator.live_bytes},
                )
                yield _counter(_MEMORY, call.begin, began, operator.live_bytes)


def _moves(profile: Profile) -> Iterator[_Event]:
    for move in profile.moves:
        yield _complete(
            move.kind, "data movement", (move.begin, move.end), profile.began, (_HOST, _STEPS)
        )


def _counters(profile: Profile) -> Iterator[_Event]:
    samples, began = profile.samples, profile.began
    shown = {f"{core} utilization, %": samples.utilization(core) for core in samples.cores}
    shown["power, W"] = samples.power()
    # Counts since the device was started are of no use.
    shown |= {
        f"{name}, {unit_of(name)}": series
        for name, series in samples.series.items()
        if unit_of(name) not in ("s", "")
    }
    for name, series in shown.items():
        # A value is of the interval that ends with it; a counter holds from its time on.
        for begin, _, value in series.intervals():
            yield _counter(name, begin, began, value)


def _complete(
    name: str,
    category: str,
    span: tuple[float, float],
    began: float,
    place: tuple[int, int],
    arguments: dict[str, Any] | None = None,
) -> _Event:
    begin, end = span
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": _micro(begin - began),
        "dur": _micro(end - begin),
        "pid": place[0],
        "tid": place[1],
        "args": arguments or {},
    }


def _counter(name: str, when: float, began: float, value: float) -> _Event:
    return {
        "name": name,
        "ph": "C",
        "ts": _micro(when - began),
        "pid": _DEVICE if name == _MEMORY else _STATE,
        "tid": 0,
        "args": {"value": value},
    }


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)
