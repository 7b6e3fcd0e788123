"""The tensors that a training step is called with, each once: in memory, or in a file's pages."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from odtc.backends.targets import CPU
from odtc.core.artifact.beside import read_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DeviceError, UsageError
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.guards.failures import FAILURES, is_out_of_memory, why_not_allocated
from odtc.runtime_rpc.sessions.session import Session

if TYPE_CHECKING:
    import tvm

# Below this a tensor is no saving worth a file.
_LEAST_FILE = 64 << 10


@dataclass(frozen=True)
class Placement:
    """The tensors that lie in files in place of memory.

    Attributes:
        folder: of the device, that they lie in; one of odtc's if None.
        offload_state: whether the optimizer's state does, and moving averages. Each update reads
            and writes them once, so that the system may drop their pages between two of these.
    """

    folder: str | None = None
    offload_state: bool = False

    @property
    def offloaded_from(self) -> int:
        """Bytes from which on state lies in files; 0 where none does."""
        return _LEAST_FILE if self.offload_state else 0

    def is_in_file(self, item: Argument) -> bool:
        """Whether an argument is. Accumulators are not: each micro-batch writes them."""
        if item.role is Role.STORAGE:
            return True
        is_state = item.role in (Role.STATE, Role.AVERAGE) and not item.is_accumulator
        return self.offload_state and is_state and item.spec.nbytes >= _LEAST_FILE


def check_placement(placement: Placement, session: Session) -> None:
    """Checks that a device has what tensors are to lie in.

    Raises:
        UsageError: it is a GPU, which reads no files.
    """
    if session.kind == CPU:
        return
    if placement.offload_state:
        raise UsageError(
            f"the optimizer's state cannot lie in files: the {session.kind} device reads none",
            where="offload_state",
            hint="leave --offload-state out, or train on a CPU",
        )
    if placement.folder is not None:
        raise UsageError(
            f"nothing of the step lies in files: the {session.kind} device reads none",
            where="storage",
            hint="leave --storage out, or train on a CPU",
        )


def allocate(
    bundle: Bundle, session: Session, placement: Placement
) -> "dict[Argument, tvm.runtime.Tensor]":
    """One tensor on the device for each argument, at the value that it starts from.

    Raises:
        UsageError: the device is a GPU, which reads no files.
        ArtifactError: weights that the artifact leaves in a file are not there, or are others.
        DeviceError: it has no memory, or no room for a file.
        OutputError: the latter of this machine.
    """
    from odtc.core.onnx_model.weights import constant_parts, read_tensors

    manifest = bundle.manifest
    check_placement(placement, session)
    tensors = {
        item: session.file_memory(item.spec, placement.folder)
        if placement.is_in_file(item)
        else _in_memory(item, session, manifest)
        for item in manifest.arguments
    }
    # An average starts at its parameter.
    starting: dict[str, list[Argument]] = defaultdict(list)
    for item in manifest.of_role(*WEIGHT_ROLES, Role.AVERAGE):
        starting[averaged(item)].append(item)
    for name, parts in chain(read_tensors(bundle.parameters), read_beside(bundle)):
        for item in starting[name]:
            session.fill(tensors[item], parts())
    for item in manifest.of_role(Role.STATE):
        spec = item.spec
        session.fill(tensors[item], constant_parts(spec.shape, spec.dtype, item.initial))
    return tensors


def averaged(item: Argument) -> str:
    """Name of the parameter whose average the argument is; of any other, its own."""
    name = item.spec.name
    return name.partition("/")[2] if item.role is Role.AVERAGE else name


def _in_memory(item: Argument, session: Session, manifest: Manifest) -> "tvm.runtime.Tensor":
    """A tensor in the device's memory.

    Raises:
        DeviceError: there is no memory for it.
    """
    import tvm

    spec = item.spec
    try:
        return tvm.runtime.empty(spec.shape, spec.dtype, session.device)
    except FAILURES as error:
        if not is_out_of_memory(error):
            raise
        whole = sum(each.spec.nbytes for each in manifest.arguments)
        least = min(plan.arena_bytes for plan in manifest.plans)
        raise DeviceError(
            f"there is no memory for the {item.role.value} {spec.name!r} of {spec.nbytes:,} "
            f"bytes{why_not_allocated(error)}",
            where=session.name,
            hint=f"the step needs {whole:,} bytes of tensors and {least:,} of an arena: "
            "compile the model for a smaller batch, train less of it, or take a larger device",
        ) from error
