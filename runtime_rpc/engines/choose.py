"""Which engine takes the steps of a trainer: one table, whose first line that holds decides.

Both give the same bits (`tests/native`), so it is a matter of what each can do, and of time.
"""

from collections.abc import Callable

from odtc.core.artifact.bundle import Bundle
from odtc.core.errors import BuildError, UnsupportedError
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.native.interface import loaded_runtime
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.session import LocalSession, Session


def _is_elsewhere(_: Bundle, session: Session) -> bool:
    return not isinstance(session, LocalSession) or not session.runs_programs


def _has_no_program(bundle: Bundle, _: Session) -> bool:
    return bundle.program is None


def _cannot_be_built(*_: object) -> bool:
    try:
        loaded_runtime()
    except (BuildError, OSError):
        return True
    return False


# What only TVM's virtual machine does, or can be there for.
_NEEDS_TVM: dict[str, Callable[[Bundle, Session], bool]] = {
    "the device is a GPU, or in another process": _is_elsewhere,
    "the artifact has no program": _has_no_program,
    "the native runtime cannot be built or loaded here": _cannot_be_built,
}


def why_tvm(bundle: Bundle, session: Session) -> str:
    """Why TVM's virtual machine takes the steps; empty where the native runtime does."""
    return next((why for why, holds in _NEEDS_TVM.items() if holds(bundle, session)), "")


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
    why = why_tvm(bundle, session)
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
            hint="install apache-tvm; where a compiler of C is missing, one is enough, too",
        ) from error
    return VirtualMachine(bundle, session, placement, host)
