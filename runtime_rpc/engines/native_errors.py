"""Translates failures of the native runtime for the user."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from odtc.backends.targets import CPU
from odtc.core.artifact.bundle import PROGRAM, Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.files import cache_folder
from odtc.core.errors import ArtifactError, DeviceError, OdtcError, OutputError
from odtc.core.specs import Role
from odtc.runtime_rpc.fit import OTHER_MACHINE
from odtc.runtime_rpc.guards import failures
from odtc.runtime_rpc.guards.failures import FITS, SMALLER, what_fits
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.native.interface import Code, NativeError
from odtc.runtime_rpc.sessions.session import Session

_AGAIN = "compile the model again"
OTHER_TARGET = (
    "compile the model for another target, or in --precision float32 where float16 is what the "
    "device lacks; `odtc targets` lists the limits of GPUs"
)


def storage_folder(placement: Placement) -> Path:
    """Where files in place of memory lie: the user's cache, unless another folder is named."""
    return Path(placement.folder) if placement.folder else cache_folder() / "storage"


@contextmanager
def opening_errors(bundle: Bundle, session: Session, placement: Placement) -> Iterator[None]:
    """A block that makes a trainer of an artifact.

    Raises:
        ArtifactError: its parts are damaged.
        DeviceError: this CPU cannot run it, or there is no memory.
        OutputError: there is no room for a file of storage.
    """
    folder = storage_folder(placement)
    try:
        if bundle.manifest.stored_bytes or placement.offload_state:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise _no_file(f"no file in place of memory: {error.strerror or error}", folder) from error
    except NativeError as error:
        raise not_opened(error, bundle.manifest, session, folder) from error


def not_opened(
    error: NativeError, manifest: Manifest, session: Session, folder: str | Path
) -> OdtcError:
    """The error for a trainer that cannot be made; its files of storage would lie in a folder."""
    if error.code is Code.NO_ROOM and session.is_local:
        return _no_file(str(error), folder)
    if error.code is Code.NO_ROOM:
        return DeviceError(
            f"no file in place of memory: {error}",
            where=session.name,
            hint="free some space on the device, or name another folder of it with --storage",
        )
    if error.code is Code.CPU:
        return DeviceError(
            f"the artifact is for {manifest.target}; {session.name} lacks an instruction: {error}",
            where=session.name,
            hint=OTHER_MACHINE,
        )
    if error.code is Code.NO_MEMORY:
        whole = sum(each.spec.nbytes for each in manifest.arguments)
        return DeviceError(
            f"there is no memory for the tensors of a step, {whole:,} bytes: {_reason(error)}",
            where=session.name,
            hint="compile the model for a smaller batch, train less of it, or take a larger device",
        )
    if session.kind != CPU and error.code in (Code.DEVICE, Code.KERNEL, Code.UNSUPPORTED):
        return DeviceError(
            f"{session.name}'s {session.kind} device cannot run the artifact: {error}",
            where=session.name,
            hint=OTHER_TARGET if error.code is Code.UNSUPPORTED else what_fits(str(error)),
        )
    return ArtifactError(f"the artifact cannot be run: {error}", where=PROGRAM, hint=_AGAIN)


def check_same_step(
    manifest: Manifest,
    found: Mapping[tuple[str, str], tuple[tuple[int, ...], str]],
    arena_bytes: int,
) -> None:
    """Checks that a program has the tensors and the plan of its manifest.

    Args:
        manifest: of the artifact.
        found: shape and dtype of each tensor of the program, by role and name.
        arena_bytes: of its first plan.

    Raises:
        ArtifactError: it has others.
    """
    whole = [each for role in (Role.INPUT, Role.LABEL) for each in manifest.fed(role)]
    others = [item for item in manifest.arguments if item.role not in (Role.INPUT, Role.LABEL)]
    wanted = {
        (item.role.value, item.spec.name): (item.spec.shape, item.spec.dtype)
        for item in (*whole, *others, *manifest.fed_features)
    }
    if found != wanted or arena_bytes != manifest.plans[0].arena_bytes:
        raise ArtifactError(
            "the program and the manifest are not of the same step", where=PROGRAM, hint=_AGAIN
        )


def _reason(error: NativeError) -> str:
    """The system's own word, with which such messages end."""
    return str(error).rpartition(": ")[2]


def _no_file(what: str, folder: str | Path) -> OutputError:
    return OutputError(
        what, where=str(folder), hint="free some space there, or name another folder with --storage"
    )


def explained(error: NativeError, manifest: Manifest, session: Session) -> DeviceError:
    """The error for a failure of a step or an evaluation."""
    if error.code is Code.DEVICE:
        return failures.explained(error, session.name)
    if error.code is not Code.NO_MEMORY:
        return DeviceError(f"the device failed: {error}", where=session.name, hint=FITS)
    count, plan = len(manifest.plans), manifest.plans[-1]
    of = f", the smallest of {count} plans" if count > 1 else ""
    return DeviceError(
        f"there is no memory for a step's arena of {plan.arena_bytes:,} bytes{of}: "
        f"{_reason(error)}",
        where=session.name,
        hint=f"{SMALLER}; a budget of auto has several plans",
    )
