"""The records that serve a target: the user's own, and those that ship with odtc."""

from contextlib import suppress
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
from odtc.backends.native.build import load_runtime
from odtc.backends.targets import HOST, Target
from odtc.core.errors import OdtcError


def records_for(
    target: Target, database: Path | None = None, device: Device | None = None
) -> Tuned:
    """The records that serve a resolved target.

    Args:
        target: to compile for.
        database: the user's records; those of `user_database` where it is None.
        device: that the step will run on. Where it is None it is this machine, for a target that
            is this machine, and unknown for others.

    Raises:
        DataError: the user's records cannot be read.
    """
    own = read(database or user_database()).records
    records = [*shipped(target.name), *own]
    fitting = [each for each in records if each.target == identity_of(target)]
    if fitting and device is None:
        # Compiling for a GPU needs neither a GPU nor its runtime.
        with suppress(OdtcError):
            device = known_device(target)
    return tuned(fitting, place_of(target, device), target.threads or 1)


def shipped(name: str) -> list[Record]:
    """The records that ship for a target of that name; see `logs/tuned/README.md`."""
    folder = Path(str(files("odtc.tuned"))) / name
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read(path).records]


def known_device(target: Target) -> Device | None:
    """This machine, or its GPU, where a resolved target is of it.

    Raises:
        BuildError: what drives its GPU cannot be built.
    """
    if not target.name.startswith(HOST):
        return None
    return host_device(target) if target.kind == CPU else _gpu(target)


def _gpu(target: Target) -> Device | None:
    """The GPU of this machine; None where there is none."""
    import tvm

    device = tvm.device(target.kind, 0)
    if not device.exist:
        load_runtime(target.kind)
    return gpu_device(device, target) if device.exist else None
