"""A run on a device that it was not begun with: it goes on with what that has, and says what not.

Losses and weights stay the same: neither cores nor places of tensors change a bit of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.training.running import Running
from odtc.core.errors import DeviceError, DeviceLostError, OdtcError, UsageError

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.runtime_rpc.sessions.session import Session
    from odtc.runtime_rpc.trainer import Trainer


class UnfitError(Exception):
    """A device is there, and cannot go on with the run, whatever it does without.

    Args:
        error: why.
    """

    def __init__(self, error: OdtcError) -> None:
        super().__init__(error.what)
        self.error = error


def say_absent(urls: Iterable[str]) -> None:
    """Says which devices are not there at the start of a run, such as by a wrong name.

    That is no error, as one may be plugged in until it is needed; but then nobody is there to read.
    """
    from odtc.runtime_rpc.connect import why_absent

    for url in urls:
        if why := why_absent(url):
            say(f"note: --elsewhere {url} is not there now: {why}")


def start_there(running: Running, artifact: "Artifact") -> "Trainer":
    """A trainer on the device of `running`, without the options that it has nothing for.

    Raises:
        DeviceError: the device is not there.
        DeviceLostError: it went away.
        UnfitError: it cannot run the step.
    """
    from odtc.runtime_rpc.connect import connect

    session = connect(running.device)
    try:
        return _started(running, artifact, session)
    except BaseException as error:
        session.close()
        if isinstance(error, OdtcError) and not isinstance(error, DeviceLostError):
            raise UnfitError(error) from error
        raise


def _started(running: Running, artifact: "Artifact", session: "Session") -> "Trainer":
    notes: list[str] = []
    for fit in (_to_cores, _to_memory):
        running, note = fit(running, session)
        notes += note
    trainer, note = _with_files(running, artifact, session)
    for each in (*notes, *note):
        say(f"note: {running.device}: {each}")
    return trainer


_Fitted = tuple[Running, list[str]]


def _to_cores(running: Running, session: "Session") -> _Fitted:
    """With the cores that there are; of a server that does not say them, any."""
    from odtc.core.options.cores import ALL, cores_of

    threads, cores, notes = running.threads, running.cores, []
    speeds = session.core_speeds()
    if speeds is None:
        return running, notes
    try:
        found = cores_of(cores or ALL, speeds)
    except UsageError as error:
        notes.append(f"{error.what}; --cores {cores} is left out")
        cores, found = None, list(speeds)
    if threads and threads > len(found):
        notes.append(f"--threads {threads} is above the number of cores; it takes {len(found)}")
        threads = len(found)
    return replace(running, threads=threads, cores=cores), notes


def _to_memory(running: Running, session: "Session") -> _Fitted:
    """By the first plan, where the device does not say what it has left."""
    if not running.follow_memory:
        return running, []
    try:
        session.available_bytes()
    except DeviceLostError:
        raise
    except DeviceError as error:
        without = replace(running, follow_memory=False)
        return without, [f"{error.what}; --follow-memory is left out"]
    return running, []


# What a device may lack the files for, and the run without it.
_FILES: dict[str, Callable[[Running], Running]] = {
    "--storage": lambda it: replace(it, storage=None),
    "--offload-state": lambda it: replace(it, offload_state=False),
}


def _with_files(
    running: Running, artifact: "Artifact", session: "Session"
) -> tuple["Trainer", list[str]]:
    """The trainer, with as many of its files as the device has a place for."""
    try:
        return running.start(artifact, session), []
    except DeviceLostError:
        raise
    except DeviceError as error:
        left_out = ((name, without(running)) for name, without in _FILES.items())
        name, less = next((each for each in left_out if each[1] != running), ("", running))
        if not name:
            raise
        try:
            trainer, notes = _with_files(less, artifact, session)
        except DeviceLostError:
            raise
        except DeviceError:
            # Files were not what it lacks.
            raise error from None
        return trainer, [f"{error.what}; {name} is left out", *notes]
