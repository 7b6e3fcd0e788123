"""Options of a trainer's memory that change nothing of its step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from odtc.core.artifact.manifest import Manifest
from odtc.core.options.idle import Idle
from odtc.core.specs import Role
from odtc.runtime_rpc.memory.allocation import Placement


@dataclass(frozen=True)
class AtWork:
    """What is known of a step that is loaded.

    Attributes:
        manifest: of it.
        placement: that was asked for.
        follows: whether each step is to run by the plan that the memory allows.
        has_budget: whether the plan is to be one that fits into a budget.
    """

    manifest: Manifest
    placement: Placement = field(default_factory=Placement)
    follows: bool = False
    has_budget: bool = False

    @property
    def state(self) -> bool:
        """Whether an update keeps something that could lie in a file."""
        kept = self.manifest.of_role(Role.STATE, Role.AVERAGE)
        return any(item.spec.shape and not item.is_accumulator for item in kept)

    def has_files(self, placement: Placement) -> bool:
        """Whether a tensor lies in a file."""
        return any(placement.is_in_file(item) for item in self.manifest.arguments)


OF_MEMORY: Sequence[Idle[AtWork]] = (
    Idle(
        "offload_state",
        lambda it: it.placement.offload_state,
        lambda it: not it.state,
        "the optimizer keeps no state, as plain SGD, and there are no moving averages",
    ),
    Idle(
        "offload_state",
        lambda it: it.placement.offload_state,
        lambda it: not it.has_files(Placement(offload_state=True)),
        "no tensor of the state has the 64 KiB that are worth a file",
    ),
    Idle(
        "storage",
        lambda it: it.placement.folder is not None,
        lambda it: not it.has_files(it.placement),
        "no tensor of the step lies in a file: that is for steps compiled with offload, and for "
        "offload_state",
    ),
    Idle(
        "memory_budget",
        lambda it: it.has_budget,
        lambda it: len(it.manifest.plans) == 1,
        "the artifact has one plan, which fits; memory_budget=auto compiles several",
    ),
    Idle(
        "follow_memory",
        lambda it: it.follows,
        lambda it: len(it.manifest.plans) == 1,
        "the artifact has one plan; memory_budget=auto compiles several",
    ),
)
