"""Checks a trace against the trace-event format; shares nothing with what writes traces.

The format: "Trace Event Format", the document that chrome://tracing and Perfetto refer to.
"""

import json
from collections import defaultdict
from numbers import Real

# Fields that an event of each phase must have, beside `name`, `ph` and `pid`.
_FIELDS = {"X": ("ts", "dur", "tid"), "C": ("ts", "args"), "M": ("args",)}
_METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
}
# Times are written to a thousandth of a microsecond.
_ROUNDING = 0.002


def faults(text: str) -> list[str]:
    """Returns the faults of a trace."""
    trace = json.loads(text, parse_constant=lambda name: name)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    found = [fault for event in events for fault in _of_event(event)]
    named = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    found += [f"process {e['pid']} has no name" for e in events if e["pid"] not in named]
    return found or _of_nesting([event for event in events if event["ph"] == "X"])


def _of_event(event: dict) -> list[str]:
    phase = event.get("ph")
    if phase not in _FIELDS:
        return [f"phase {phase!r}"]
    missing = [key for key in ("name", "pid", *_FIELDS[phase]) if key not in event]
    found = [f"{event.get('name')} has no {key}" for key in missing]
    for key in ("ts", "dur"):
        value = event.get(key, 0)
        if not isinstance(value, Real) or value < 0:
            found.append(f"{event['name']}: {key} is {value!r}")
    found += [f"{key} is {event[key]!r}" for key in ("pid", "tid") if type(event[key]) is not int]
    arguments = event.get("args", {})
    if phase == "C" and not all(isinstance(value, Real) for value in arguments.values()):
        found.append(f"counter {event['name']}: {arguments}")
    if phase == "M" and _METADATA.get(event["name"]) not in arguments:
        found.append(f"metadata {event['name']}: {arguments}")
    return found


def _of_nesting(events: list[dict]) -> list[str]:
    """Complete events of one thread lie within each other, or apart."""
    threads = defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(event)
    found = []
    for own in threads.values():
        ends: list[float] = []
        for event in sorted(own, key=lambda one: (one["ts"], -one["dur"])):
            while ends and ends[-1] <= event["ts"] + _ROUNDING:
                ends.pop()
            end = event["ts"] + event["dur"]
            if ends and end > ends[-1] + _ROUNDING:
                found.append(f"{event['name']} at {event['ts']} crosses the end of another")
            ends.append(end)
    return found
