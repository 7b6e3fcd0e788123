"""What a page shows of the JSON of `odtc profile`."""

from collections.abc import Mapping
from dataclasses import dataclass

from odtc.runtime_rpc.profile.record import Phase


@dataclass(frozen=True)
class ProfiledPhase:
    """A part of the step, with the seconds that its operators took."""

    seconds: float


@dataclass(frozen=True)
class ProfiledCall:
    """An operator of the step.

    Attributes:
        kernel: its name.
        phase: of the step.
        nodes: ONNX nodes that it computes, or whose gradients.
        seconds: in a step.
    """

    kernel: str
    phase: Phase
    nodes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Profiled:
    """A profile.

    Attributes:
        device: where the steps ran.
        emulated: whether its times are no measurements.
        phases: of the step, of those that have operators.
        operators: of the step.
    """

    device: str
    emulated: bool
    phases: Mapping[Phase, ProfiledPhase]
    operators: tuple[ProfiledCall, ...]
