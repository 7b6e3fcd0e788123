"""The records that serve a target: the user's own, and those that ship with odtc."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from odtc.autoschedule.tuning.database import Tuned, read, tuned, user_database
from odtc.autoschedule.tuning.record import (
    Device,
    Record,
    gpu_device,
    host_device,
    identity_of,
    place_of,
)
from odtc.backends.cpus import CPU
from odtc.backends.targets import HOST, Target
from odtc.core.errors import DeviceError, OdtcError
from odtc.core.found_gpu import FoundGpu

# Finds a GPU by the kind of its interface; errors as of `Session.gpu`.
FindGpu = Callable[[str], FoundGpu]


def no_gpu(kind: str) -> FoundGpu:
    """Finds none.

    Raises:
        DeviceError: always.
    """
    raise DeviceError(f"nobody looks for a GPU of {kind}")


def records_for(
    target: Target,
    database: Path | None = None,
    device: Device | None = None,
    gpu: FindGpu = no_gpu,
) -> Tuned:
    """The records that serve a resolved target.

    Args:
        target: to compile for.
        database: the user's records; those of `user_database` where it is None.
        device: that the step will run on. Where it is None it is this machine, for a target that
            is this machine, and unknown for others.
        gpu: finds the GPU of this machine.

    Raises:
        DataError: the user's records cannot be read.
    """
    own = read(database or user_database()).records
    records = [*shipped(target.name), *own]
    identity = identity_of(target)
    fitting = [each for each in records if each.target == identity]
    if fitting and device is None:
        # Compiling for a GPU needs neither a GPU nor a driver.
        with suppress(OdtcError):
            device = known_device(target, gpu)
    return tuned(fitting, place_of(target, device), target.threads or 1)


def shipped(name: str) -> list[Record]:
    """The records that ship for a target of that name; see `logs/tuned/README.md`."""
    folder = Path(str(files("odtc.tuned"))) / name
    return [record for path in sorted(folder.glob("*.jsonl")) for record in _read_once(path)]


@cache
def _read_once(path: Path) -> tuple[Record, ...]:
    """The records of a file of this package, which does not change while a process runs."""
    return read(path).records


def known_device(target: Target, gpu: FindGpu = no_gpu) -> Device | None:
    """This machine, or its GPU, where a resolved target is of it.

    Args:
        target: the target.
        gpu: as of `records_for`.

    Raises:
        BuildError: what drives its GPU cannot be built.
        DeviceError: it has no such GPU.
    """
    if not target.name.startswith(HOST):
        return None
    return host_device(target) if target.kind == CPU else gpu_device(gpu(target.kind), target)
