"""A profile as a record: operators of the step, when each ran, and samples of the same time.

All times are seconds of the device's monotonic clock. Those of the host are moved onto it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import Any

from odtc.runtime_rpc.metrics.samples import Samples, Series
from odtc.runtime_rpc.metrics.throttling import throttling_within
from odtc.runtime_rpc.metrics.usage import usage_of


class Phase(StrEnum):
    """The phase that a call of a step belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(frozen=True)
class ProfiledOperator:
    """One call of a kernel in the step's function.

    Attributes:
        kernel: its name.
        phase: of the step; calls that run again in the backward pass belong to that.
        nodes: ONNX nodes that it computes, or whose gradients, the last one first; of an update,
            its parameter.
        live_bytes: bytes of the arena that hold a tensor while it runs.
    """

    kernel: str
    phase: Phase
    nodes: tuple[str, ...]
    live_bytes: int

    @property
    def label(self) -> str:
        """Names of its nodes, or of its kernel where it has none."""
        return ", ".join(self.nodes) or self.kernel


@dataclass(frozen=True)
class Timed:
    """An operator's run, with the times at which it began and ended."""

    operator: int
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Seconds that it took."""
        return self.end - self.begin


@dataclass(frozen=True)
class StepCall:
    """One call of the step's function: a step, or a micro-batch of it.

    Attributes:
        begin: when it began to check its arguments.
        end: of its last kernel.
        calls: of kernels, in order.
    """

    begin: float
    end: float
    calls: tuple[Timed, ...]

    @property
    def seconds(self) -> float:
        """Seconds that it took."""
        return self.end - self.begin


@dataclass(frozen=True)
class Move:
    """Data that went to the device, or came from it, as a GPU's timers or else the host saw it.

    Attributes:
        kind: `upload` of a batch, or `download` of a loss; as the host sees it, with what is left
            of the step by then. `link` where both travel with a call: before its steps, and after.
        begin: when.
        end: when it was done.
    """

    kind: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Seconds that it took."""
        return self.end - self.begin


@dataclass(frozen=True)
class Profile:
    """A profile of several training steps, with samples of the device's state meanwhile.

    Attributes:
        model: name of the model's file.
        device: where they ran.
        operators: of the step; of several plans, those of each that ran.
        steps: the runs of each step: its micro-batches, or one.
        moves: data movement of all steps.
        samples: of the same time.
        parameter_bytes: of weights.
        optimizer_bytes: of the optimizer's state.
        on_gpu: whether operators ran on a GPU, and cores of the CPU were busy with other things.
        length: that the steps were taken at; 0 where the step has one size.
    """

    model: str
    device: str
    operators: tuple[ProfiledOperator, ...]
    steps: tuple[tuple[StepCall, ...], ...]
    moves: tuple[Move, ...]
    samples: Samples
    parameter_bytes: int
    optimizer_bytes: int
    on_gpu: bool = False
    length: int = 0

    @property
    def emulated(self) -> bool:
        """Whether the device is emulated, and its times are no measurements."""
        return self.samples.emulated

    @property
    def began(self) -> float:
        """The time at which the first recorded event began."""
        runs = (run.begin for step in self.steps for run in step)
        return min([*runs, *(move.begin for move in self.moves), self.samples.began])

    @property
    def ended(self) -> float:
        """The time at which the last one ended."""
        runs = (run.end for step in self.steps for run in step)
        return max([*runs, *(move.end for move in self.moves), self.samples.ended])

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Seconds of each step on the device, without data movement."""
        return tuple(sum(run.seconds for run in step) for step in self.steps)

    @cached_property
    def operator_seconds(self) -> tuple[float, ...]:
        """Seconds of each operator in a step: the median over steps, of all its micro-batches."""
        taken = [[0.0] * len(self.steps) for _ in self.operators]
        for number, step in enumerate(self.steps):
            for run in step:
                for call in run.calls:
                    taken[call.operator][number] += call.seconds
        return tuple(median(each) for each in taken)

    @property
    def coverage(self) -> float:
        """The share of a step's time that operators took, from 0 to 1: the median over steps."""
        return median(
            sum(call.seconds for run in step for call in run.calls) / total
            for step, total in zip(self.steps, self.step_seconds, strict=True)
        )

    @property
    def peak_bytes(self) -> int:
        """The most bytes of the arena that hold a tensor at one time."""
        return max((operator.live_bytes for operator in self.operators), default=0)

    def phase_seconds(self, phase: Phase) -> float:
        """Returns the seconds that the operators of a phase took in a step."""
        return sum(self.operator_seconds[number] for number in self.of_phase(phase))

    def of_phase(self, phase: Phase) -> list[int]:
        """Numbers of the operators of a phase."""
        return [number for number, each in enumerate(self.operators) if each.phase is phase]

    def moved_seconds(self, kind: str) -> float:
        """Returns the seconds that moves of a kind took in a step."""
        moved = sum(move.seconds for move in self.moves if move.kind == kind)
        return moved / len(self.steps) if self.steps else 0.0

    def calls_of(self, numbers: Iterable[int]) -> list[Timed]:
        """All times at which some operators ran."""
        wanted = frozenset(numbers)
        runs = (run for step in self.steps for run in step)
        return [call for run in runs for call in run.calls if call.operator in wanted]

    def felt(self, numbers: Iterable[int]) -> dict[str, float]:
        """Returns the device's state while some operators ran: means, weighted by time.

        Returns:
            `utilization` in percent, the mean of all cores; `frequency` in hertz, likewise;
            `gpu` in percent; `power` in watts; those that are known. Of operators on a GPU none of
            the cores, which wait for it.
        """
        calls = self.calls_of(numbers)
        found = {name: _mean(group, calls) for name, group in self._state_series.items()}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def _state_series(self) -> dict[str, list[Series]]:
        samples = self.samples
        cores = [] if self.on_gpu else samples.cores
        frequencies = (samples.series.get(f"{core}.frequency") for core in cores)
        return {
            "utilization": [samples.utilization(core) for core in cores],
            "frequency": [series for series in frequencies if series],
            "gpu": [samples.utilization("gpu")],
            "power": [samples.power()],
        }

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON, with derived figures."""
        operators = [
            asdict(each) | {"seconds": seconds, "felt": self.felt([number])}
            for number, (each, seconds) in enumerate(
                zip(self.operators, self.operator_seconds, strict=True)
            )
        ]
        phases = {
            phase.value: {"seconds": self.phase_seconds(phase), "felt": self.felt(of)}
            for phase in Phase
            if (of := self.of_phase(phase))
        }
        return {
            "model": self.model,
            "device": self.device,
            **({"length": self.length} if self.length else {}),
            "emulated": self.emulated,
            "fixture": self.samples.fixture,
            "step_seconds": self.step_seconds,
            "coverage": self.coverage,
            "phases": phases,
            "moved_seconds": {kind: self.moved_seconds(kind) for kind in MOVES},
            "memory": {
                "parameters": self.parameter_bytes,
                "optimizer": self.optimizer_bytes,
                "peak": self.peak_bytes,
            },
            "operators": operators,
            "steps": [[asdict(run) for run in step] for step in self.steps],
            "moves": [asdict(move) for move in self.moves],
            "usage": asdict(usage_of(self.samples)),
            "throttled": throttling_within(self.samples),
            "samples": self.samples.to_dict(),
        }


UPLOAD, DOWNLOAD, LINK = "upload", "download", "link"
MOVES = (UPLOAD, DOWNLOAD, LINK)


def _mean(group: Sequence[Series], calls: Sequence[Timed]) -> float | None:
    """The mean of several series over the times of calls."""
    total = weight = 0.0
    for series in group:
        for call in calls:
            value = series.mean(call.begin, call.end)
            if value is not None:
                total += value * call.seconds
                weight += call.seconds
    return total / weight if weight else None
