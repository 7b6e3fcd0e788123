"""Which engine takes the steps of a trainer: one table, whose first line that holds decides.

Both give the same bits (`tests/native`), so it is a matter of what each can do, and of time.
"""

from collections.abc import Callable

from odtc.backends.targets import CPU
from odtc.core.artifact.bundle import Bundle
from odtc.core.disk.files import check_programs
from odtc.core.errors import BuildError, MissingPackageError, UnsupportedError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.process.missing_packages import missing_package
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.native.interface import loaded_gpu_runtime, loaded_runtime
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.session import Session

# How a reason begins that the user can do something about.
_NOT_HERE = "the native runtime cannot be built or loaded here: "


def _is_elsewhere(_: Bundle, session: Session) -> str:
    if isinstance(session, LocalSession) and session.runs_programs:
        return ""
    return "the device is in another process, or none that the native runtime knows"


def _has_no_program(bundle: Bundle, _: Session) -> str:
    return "" if bundle.program else "the artifact has no program"


def _cannot_be_built(bundle: Bundle, session: Session) -> str:
    # Where no library can be loaded from, TVM can load none either.
    check_programs(bundle.root)
    try:
        (loaded_runtime if session.kind == CPU else loaded_gpu_runtime)()
    except (BuildError, OSError) as error:
        why = error.what if isinstance(error, BuildError) else error
        return f"{_NOT_HERE}{why}"
    return ""


# What only TVM's virtual machine does, or can be there for: each says why, or nothing.
_NEEDS_TVM: tuple[Callable[[Bundle, Session], str], ...] = (
    _is_elsewhere,
    _has_no_program,
    _cannot_be_built,
)


def why_tvm(bundle: Bundle, session: Session) -> str:
    """Why TVM's virtual machine takes the steps; empty where the native runtime does.

    Raises:
        OutputError: neither can: no library can be loaded from the folder for temporary files.
    """
    return next(filter(None, (why(bundle, session) for why in _NEEDS_TVM)), "")


def _check_lengths(bundle: Bundle, session: Session) -> None:
    """Checks that a step of several lengths can be taken; see `engine_of` for errors."""
    if why := "" if session.serves_programs else why_tvm(bundle, session):
        raise UnsupportedError(
            "a step of several lengths is taken by the native runtime alone, here or in "
            f"odtc-device: {why}",
            where=session.name,
            hint="compile an artifact for each length: --shape NAME=N",
        )


def engine_of(bundle: Bundle, session: Session, placement: Placement, host: HostClock) -> Engine:
    """The engine of a new trainer.

    Args:
        bundle: the artifact.
        session: with the device.
        placement: of its tensors.
        host: that the host's doings are noted with.

    Raises:
        MissingPackageError: it needs TVM, which is not installed.
        ArtifactError: its program or library is damaged.
        DeviceError: the device cannot run it, or has no memory.
        OutputError: there is no room for a file, or no library can be loaded from its folder.
        UsageError: the device is a GPU, which reads no files.
        UnsupportedError: it is a GPU, and the artifact has no program; or the step has several
            lengths, and the native runtime takes it neither here nor there.
    """
    if bundle.manifest.shorter:
        _check_lengths(bundle, session)
    if session.serves_programs:
        from odtc.runtime_rpc.engines.served import ServedEngine
        from odtc.runtime_rpc.sessions.remote import RemoteSession

        assert isinstance(session, RemoteSession)
        return ServedEngine(bundle, session, placement, host)
    why = why_tvm(bundle, session)
    if not why:
        assert isinstance(session, LocalSession)
        return NativeEngine(bundle, session, placement, host)
    if session.kind != CPU:
        raise UnsupportedError(
            f"only the native runtime drives GPUs: {why}",
            where=session.name,
            hint="compile the model again with this version",
        )
    try:
        from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        raise MissingPackageError(
            f"TVM would take these steps, but is not installed: {why}",
            where=session.name,
            hint=f"{missing.hint}; if only a C compiler is missing, installing one is enough",
        ) from error
    if why.startswith(_NOT_HERE):
        warn_caller(
            f"TVM takes these steps, to the same bits: {why}; with a C compiler, such as gcc, "
            "a run starts in a tenth of the time and of the memory"
        )
    return VirtualMachine(bundle, session, placement, host)
