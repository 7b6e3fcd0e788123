"""Which engine takes the steps of a trainer: one table, whose first line that holds decides.

Both give the same bits (`tests/native`), so it is a matter of what each can do, and of time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from odtc.core.artifact.bundle import Bundle
from odtc.core.errors import BuildError, UnsupportedError
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.native.binding import loaded_runtime
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.session import LocalSession, Session


@dataclass(frozen=True)
class Asked:
    """What a trainer is made of."""

    bundle: Bundle
    session: Session
    placement: Placement


def _cannot_be_built(_: Asked) -> bool:
    try:
        loaded_runtime()
    except (BuildError, OSError):
        return True
    return False


def _is_here(session: Session) -> bool:
    return isinstance(session, LocalSession) and session.runs_programs


# What only TVM's virtual machine does, or can be there for.
_NEEDS_TVM: dict[str, Callable[[Asked], bool]] = {
    "the device is a GPU, or in another process": lambda it: not _is_here(it.session),
    "the artifact has no program": lambda it: it.bundle.program is None,
    "the optimizer's state lies in files": lambda it: it.placement.offload_state,
    "the native runtime cannot be built or loaded here": _cannot_be_built,
}


def why_tvm(bundle: Bundle, session: Session, placement: Placement) -> str:
    """Why TVM's virtual machine takes the steps; empty where the native runtime does."""
    asked = Asked(bundle, session, placement)
    return next((why for why, holds in _NEEDS_TVM.items() if holds(asked)), "")


def engine_of(bundle: Bundle, session: Session, placement: Placement, host: HostClock) -> Engine:
    """The engine of a new trainer.

    Args:
        bundle: the artifact.
        session: with the device.
        placement: of its tensors.
        host: that the host's doings are noted with.

    Raises:
        UnsupportedError: it needs TVM, which is not installed.
        ArtifactError: its program or library is damaged.
        DeviceError: the device cannot run it, or has no memory.
        OutputError: there is no room for a file.
        UsageError: the device is a GPU, which reads no files.
    """
    why = why_tvm(bundle, session, placement)
    if not why:
        assert isinstance(session, LocalSession)
        return NativeEngine(bundle, session, placement, host)
    try:
        from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("tvm", "tvm_ffi"):
            raise
        raise UnsupportedError(
            f"TVM would take these steps, and is not installed: {why}",
            where=session.name,
            hint="install apache-tvm; where a compiler of C is missing, that is enough, too",
        ) from error
    return VirtualMachine(bundle, session, placement, host)
