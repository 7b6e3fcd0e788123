"""Whether an artifact fits what it is to run on."""

from collections.abc import Mapping
from dataclasses import replace

from odtc.backends.cpus import lacking_features
from odtc.backends.targets import CPU, MOST_THREADS, Target
from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DeviceError, UsageError
from odtc.core.options.cores import cores_of_threads, parse_cores
from odtc.runtime_rpc.sessions.session import Session

# What to do with an artifact that a device cannot run.
OTHER_MACHINE = "give the device that it is for, or compile the model for this one"


def check_threads(threads: int | None, cores: str | None, target: Target) -> None:
    """Checks what a caller asks for, against what the artifact's workspaces suffice for.

    Raises:
        UsageError: `threads` is not positive or above the target's, or `cores` unknown; or one of
            them is given, and a GPU takes the steps.
    """
    check_on_cpu({"threads": threads, "cores": cores}, target)
    if cores is not None:
        parse_cores(cores)
    if threads is not None and threads < 1:
        raise UsageError(
            f"threads {threads} is below 1", hint="give a number from 1 to the number of cores"
        )
    most = target.threads
    if threads is not None and most is not None and threads > most:
        raise UsageError(
            f"threads {threads} is above {most}, the number that the artifact is compiled for",
            hint=f"compile it for a target with threads={threads}, or give fewer",
        )


def check_on_cpu(given: Mapping[str, object], target: Target) -> None:
    """Checks that nothing is asked for that a step on a GPU would not heed.

    Args:
        given: values by the names of their options; None, or nothing, where one is not given.
        target: of the step.

    Raises:
        UsageError: one is given, and a GPU takes the steps.
    """
    found = [name for name, value in given.items() if value]
    if target.kind != CPU and found:
        raise UsageError(
            f"{' and '.join(found)} would change nothing: {target.name} computes on a GPU",
            hint=f"leave {' and '.join(found)} out, or compile the model for a CPU",
        )


def check_cores(
    session: Session, threads: int | None, cores: str | None, target: Target
) -> int | None:
    """Checks a choice of cores against those that the device has, as far as they are known.

    Returns:
        The number of threads: without a choice of it one for each core that is chosen, as far as
        the artifact's workspaces suffice; None where nothing is chosen.

    Raises:
        UsageError: the device has no such core, or fewer than threads.
    """
    if cores is None:
        return threads
    speeds = session.core_speeds()
    if speeds is None:
        return threads or 0
    count = len(cores_of_threads(threads or 0, cores, speeds))
    return min(count, target.threads or count)


def idle_cores(session: Session, target: Target) -> str:
    """A note on cores that a step leaves idle; empty where none is known to be."""
    speeds = session.core_speeds()
    if target.kind != CPU or target.threads is None or speeds is None:
        return ""
    useful = min(len(speeds), MOST_THREADS)
    if useful <= target.threads:
        return ""
    return (
        f"the step was compiled for {target.threads} of the {len(speeds)} cores of {session.name}; "
        f"compile it for {replace(target, threads=useful).spec} to use {useful}"
    )


def check_machine(session: Session, manifest: Manifest, target: Target) -> None:
    """Checks that the device is of the artifact's architecture, as far as it is known.

    Raises:
        DeviceError: it cannot.
    """
    if target.is_static:
        raise DeviceError(
            f"the artifact is for {manifest.target}, whose steps run in an app alone",
            where=session.name,
            hint="write what the app needs: odtc export-app; or compile the model for this device",
        )
    check_architecture(session, manifest.triple, manifest.target)


def check_architecture(session: Session, triple: str, target: str, what: str = "artifact") -> None:
    """Checks that a device is of an architecture, as far as it is known.

    Args:
        session: on the device.
        triple: LLVM's name of architecture and system.
        target: that it belongs to, for the error.
        what: is for that.

    Raises:
        DeviceError: it is of another one.
    """
    wanted, found = triple.partition("-")[0], session.info().get("machine")
    if found not in (None, wanted):
        raise DeviceError(
            f"the {what} is for {wanted} ({target}); {session.name} is {found}",
            where=session.name,
            hint=OTHER_MACHINE,
        )


def check_features(session: Session, manifest: Manifest, target: Target) -> None:
    """Checks that this machine has what the artifact's code needs of a CPU, by what LLVM says.

    Raises:
        DeviceError: it has not.
    """
    lacking = lacking_features(target.cpu) if session.is_local else []
    if lacking:
        raise DeviceError(
            f"the artifact is for {manifest.target}; {session.name} lacks {', '.join(lacking)}",
            where=session.name,
            hint=OTHER_MACHINE,
        )
