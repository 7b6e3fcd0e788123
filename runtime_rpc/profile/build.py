"""Builds operators and runs from a clock's events and a plan."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odtc.core.artifact.memory_plan import Kind, MemoryPlan, PlannedTensor
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.profile.record import Phase, ProfiledOperator, StepCall, Timed
from odtc.runtime_rpc.server.measure.call_clock import BOOKKEEPING

# With what a function of the virtual machine begins: it checks its arguments.
_CHECK = "vm.builtin.check_tensor_info"
_ACTIVATIONS = frozenset({Kind.ACTIVATION, Kind.SAVED})

# Name, begin, end.
Event = tuple[str, float, float]


def operators_of(plan: MemoryPlan) -> list[ProfiledOperator]:
    """The calls of a plan, with what they are for."""
    written: list[list[PlannedTensor]] = [[] for _ in plan.calls]
    finished: list[list[PlannedTensor]] = [[] for _ in plan.calls]
    for tensor in plan.tensors:
        if tensor.kind is not Kind.WORKSPACE:
            written[tensor.first].append(tensor)
            finished[tensor.last].append(tensor)
    operators = []
    for number, name in enumerate(plan.calls):
        made, read = written[number], finished[number]
        phase = _phase(number >= plan.backward, made, read)
        nodes = _parameters(read) if phase is Phase.UPDATE else _nodes(made) or _nodes(read)
        operators.append(ProfiledOperator(name, phase, nodes, plan.live_bytes[number]))
    return operators


def _phase(
    is_behind: bool, written: Sequence[PlannedTensor], finished: Sequence[PlannedTensor]
) -> Phase:
    """Returns the phase of a call.

    After the forward pass, one that makes nothing of a node is an update; or it makes the loss, or
    moves a statistic, if it is the last one to read an activation.
    """
    if not is_behind:
        return Phase.FORWARD
    if any(tensor.origins for tensor in written):
        return Phase.BACKWARD
    return Phase.FORWARD if any(t.kind in _ACTIVATIONS for t in finished) else Phase.UPDATE


def _nodes(tensors: Iterable[PlannedTensor]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(origin) for each in tensors for origin in each.origins))


def _parameters(tensors: Iterable[PlannedTensor]) -> tuple[str, ...]:
    """The parameters that a call updates, by the gradients that it is the last to read."""
    gradients = (tensor for tensor in tensors if tensor.kind is Kind.PARAMETER_GRADIENT)
    return tuple(dict.fromkeys(o.tensor for each in gradients for o in each.origins if o.tensor))


def events_of(data: Mapping[str, Any]) -> list[Event]:
    """Returns the events that a clock recorded, in order."""
    return [(data["names"][number], begin, end) for number, begin, end in data["calls"]]


def runs_of(
    events: Sequence[Event], plans: Sequence[tuple[int, Sequence[str]]], where: str
) -> list[StepCall]:
    """The runs of the step's function among all calls.

    Args:
        events: of a clock; other functions may have run between.
        plans: of each run, the number of its first operator and its kernels.
        where: of the device, for errors.

    Raises:
        DeviceError: the device ran something else.
    """
    places = [n for n, (name, *_) in enumerate(events) if not name.startswith(BOOKKEEPING)]
    names = [events[place][0] for place in places]
    runs: list[StepCall] = []
    at = 0
    for first, kernels in plans:
        wanted = list(kernels)
        while at + len(wanted) <= len(names) and names[at : at + len(wanted)] != wanted:
            at += 1
        own = places[at : at + len(wanted)]
        if len(own) < len(wanted):
            raise DeviceError(
                f"{len(names)} kernels were clocked, which are not those of {len(plans)} runs",
                where=where,
                hint="profile an artifact that was compiled by this version",
            )
        calls = tuple(Timed(first + n, *events[place][1:]) for n, place in enumerate(own))
        runs.append(StepCall(_begin(events, own[0]), calls[-1].end, calls))
        at += len(wanted)
    return runs


def _begin(events: Sequence[Event], first: int) -> float:
    """Returns the time at which the run began whose first kernel is that event."""
    begin = events[first][1]
    for name, when, _ in reversed(events[:first]):
        if not name.startswith(BOOKKEEPING):
            break
        if name == _CHECK:
            begin = when
    return begin
