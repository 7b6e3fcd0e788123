"""What steps change of a trainer, kept aside while another adapter is at work on the same base."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from odtc.core.artifact.beside import array_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.tensor_file import read_arrays, read_header
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.memory.allocation import averaged

# Of the adapter that a trainer begins with, as in PEFT.
DEFAULT = "default"
# Beside what makes a run the one that it is: how far it has come. See `odtc.runtime_rpc.loop`.
PROGRESS = "progress"
_SAVED_ROLES = (*WEIGHT_ROLES, Role.STATE, Role.AVERAGE)
_CHANGED_ROLES = (Role.PARAMETER, Role.STATISTIC, Role.STATE, Role.AVERAGE)


@dataclass(frozen=True)
class Parked:
    """An adapter that is not at work: all that its steps changed, and nothing of the base.

    Attributes:
        steps: that it has taken.
        tensors: those of `changed_arguments`, by name.
        progress: of its last run of `fit`, as text.
        run: what makes its run the one that it is; see `Trainer.run`.
        is_stored: whether a file says so: whoever takes further steps says it anew.
    """

    steps: int
    tensors: Mapping[str, np.ndarray]
    progress: str = ""
    run: Mapping[str, str] = field(default_factory=dict)
    is_stored: bool = False

    @property
    def record(self) -> dict[str, str]:
        """What checkpoints keep of its run."""
        return {**self.run, **({PROGRESS: self.progress} if self.progress else {})}


def changed_arguments(manifest: Manifest) -> tuple[Argument, ...]:
    """The arguments that steps change, and so all that adapters of one base differ in."""
    return manifest.of_role(*_CHANGED_ROLES)


def saved_arguments(manifest: Manifest, step: int, *, base: bool = True) -> list[Argument]:
    """The arguments that a checkpoint after so many steps holds.

    Args:
        manifest: of the step.
        step: how many were taken.
        base: whether frozen weights are among them.
    """
    arguments = manifest.of_role(*_SAVED_ROLES)
    adding_up = step % manifest.accumulate > 0
    return [
        item
        for item in arguments
        if (adding_up or not item.is_accumulator) and (base or item.role is not Role.FROZEN)
    ]


def initial(bundle: Bundle) -> Parked:
    """An adapter as the artifact has it, before the first step.

    Raises:
        ArtifactError: weights that the artifact leaves in a file are not there, or are others.
    """
    items = changed_arguments(bundle.manifest)
    # An average starts at its parameter.
    wanted = {averaged(item) for item in items if item.role is not Role.STATE}
    with bundle.parameters.open("rb") as file:
        stored = dict(read_arrays(file, read_header(file), wanted))
    return Parked(0, {item.spec.name: _start(item, stored, bundle) for item in items})


def _start(item: Argument, stored: Mapping[str, np.ndarray], bundle: Bundle) -> np.ndarray:
    if item.role is Role.STATE:
        return np.full(item.spec.shape, item.initial, item.spec.dtype)
    name = averaged(item)
    found = stored[name] if name in stored else array_beside(bundle, name)
    assert found is not None
    return found
