"""Profiles the steps that a trainer takes within a block."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any

from odtc.backends.targets import CPU
from odtc.core.artifact.manifest import Manifest
from odtc.core.artifact.memory_plan import MemoryPlan
from odtc.core.errors import UsageError
from odtc.runtime_rpc.metrics.sampling import PERIOD
from odtc.runtime_rpc.profile.build import events_of, operators_of, runs_of
from odtc.runtime_rpc.profile.host_clock import HostClock, HostSpan
from odtc.runtime_rpc.profile.lengths import check_length, check_plans, profiled
from odtc.runtime_rpc.profile.record import LINK, MOVES, Move, Profile, ProfiledOperator, StepCall
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.tracker.told import understood


class Profiling:
    """The profile of a block, once it has ended."""

    _profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """Returns the profile of the steps in the block.

        Raises:
            UsageError: the block has not ended.
        """
        if self._profile is None:
            raise UsageError(
                "there is no profile yet", hint="read it after the block that is profiled"
            )
        return self._profile

    def end(self, profile: Profile) -> None:
        """Sets the profile, once."""
        self._profile = profile


@contextmanager
def profiling(
    session: Session,
    clocked: AbstractContextManager[dict[str, Any]],
    host: HostClock,
    manifest: Manifest,
    plans: Sequence[MemoryPlan],
    period: float = PERIOD,
    root: str = "/",
    *,
    length: int | None = None,
) -> Iterator[Profiling]:
    """Profiles the steps that are taken within the block.

    Args:
        session: of the device that they run on.
        clocked: a block in which their calls are timed; see `Engine.clocked`.
        host: the clock that the trainer records its activities with.
        manifest: of the artifact.
        plans: its memory plans.
        period: seconds between samples.
        root: on the device, of `/proc` and `/sys`.
        length: whose steps are profiled, where the step has several; None for the longest that ran.

    Raises:
        DeviceError: the device's server cannot measure, or the device failed.
        UsageError: no step was taken, or none at that length; the step has no such length; the
            period is out of its bounds; a block is in another one.
        ArtifactError: an older odtc compiled the step for several lengths, without their plans.
    """
    if host.spans is not None:
        raise UsageError("steps are being profiled already", hint="end the other block first")
    check_length(manifest, length)
    check_plans(manifest, len(plans))
    found = Profiling()
    with session.sampling(period, root) as sampled, clocked as times:
        host.spans = spans = []
        try:
            yield found
        finally:
            host.spans = None
    of = {
        (at, plan.function): memory
        for (at, plan), memory in zip(manifest.every_plan, plans, strict=True)
    }
    functions = {function for _, function in of}
    called = [span for span in spans if span.what in functions and span.runs]
    if not called:
        raise UsageError("no step was taken", hint="take some within the block that is profiled")
    count = manifest.micro_batches
    lengths = [n for span in called for n in span.lengths or (0,) * span.runs]
    whats = [span.what for span in called for _ in range(span.runs)]
    chosen = profiled(lengths[::count], length)
    ran = [of[each] for each in zip(lengths, whats, strict=True)]
    is_mixed = len({*lengths}) > 1
    operators, firsts = _operators([p for p, n in zip(ran, lengths, strict=True) if n == chosen])
    # Operators of other lengths have no numbers: those steps are left out.
    wanted = [(firsts.get(id(plan), 0), plan.calls) for plan in ran]
    with understood("the device", session.name):
        events = events_of(times)
    runs = runs_of(events, wanted, session.name)
    steps = [tuple(runs[n : n + count]) for n in range(0, len(runs), count)]
    found.end(
        Profile(
            model=manifest.model,
            device=session.name,
            operators=operators,
            steps=tuple(s for s, n in zip(steps, lengths[::count], strict=True) if n == chosen),
            # Of steps at several lengths nothing says whose they are.
            moves=()
            if is_mixed
            else _through_link(called, runs)
            if session.serves_programs
            else _moves(spans, 0.0 if session.is_local else _ahead(called, runs)),
            samples=sampled.samples,
            parameter_bytes=manifest.sizes.parameters,
            optimizer_bytes=manifest.sizes.optimizer,
            on_gpu=session.kind != CPU,
            length=chosen,
        )
    )


def _operators(plans: Sequence[MemoryPlan]) -> tuple[tuple[ProfiledOperator, ...], dict[int, int]]:
    """Operators of all plans that ran, and where those of each begin."""
    operators: list[ProfiledOperator] = []
    firsts: dict[int, int] = {}
    for plan in plans:
        if id(plan) not in firsts:
            firsts[id(plan)] = len(operators)
            operators += operators_of(plan)
    return tuple(operators), firsts


def _calls(
    called: Sequence[HostSpan], runs: Sequence[StepCall]
) -> list[tuple[HostSpan, list[StepCall]]]:
    """Each call, as the host saw it, with its runs."""
    rest = iter(runs)
    return [(span, list(islice(rest, span.runs))) for span in called]


def _ahead(called: Sequence[HostSpan], runs: Sequence[StepCall]) -> float:
    """Seconds that the device's clock is ahead by: runs are within their call, by the middle."""
    calls = _calls(called, runs)
    least = max(own[-1].end - span.end for span, own in calls)
    most = min(own[0].begin - span.begin for span, own in calls)
    return (least + most) / 2


def _through_link(called: Sequence[HostSpan], runs: Sequence[StepCall]) -> tuple[Move, ...]:
    """Data movement of calls that bring batches and take losses back, by the device's clock."""
    moves, ahead = [], _ahead(called, runs)
    for span, own in _calls(called, runs):
        begin, end = own[0].begin, own[-1].end
        moves.append(Move(LINK, min(span.begin + ahead, begin), begin))
        moves.append(Move(LINK, end, max(span.end + ahead, end)))
    return tuple(moves)


def _moves(spans: Sequence[HostSpan], ahead: float) -> tuple[Move, ...]:
    """Data movement as the host saw it, by the device's clock."""
    return tuple(
        Move(span.what, span.begin + ahead, span.end + ahead)
        for span in spans
        if span.what in MOVES
    )
