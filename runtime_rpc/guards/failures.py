"""Translates failures of TVM, and of a driver under it, for the user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from odtc.core.errors import DeviceError, DeviceLostError

# TVM raises no class of its own: a failure in C++ comes as one of Python's, by the kind it names.
FAILURES = (RuntimeError, OSError, ValueError, TypeError, AttributeError)
# What they say, in C++ or in our runtimes, where a tensor or an arena cannot be allocated.
_NOT_ALLOCATED = re.compile(r"bad_alloc|a buffer of (?P<bytes>\d+) bytes: (?P<why>.*)")
# Of a driver that allocates a buffer when a kernel first uses it: too late to try another plan.
_OUT_OF_MEMORY = re.compile(r"out of (device|host) (memory|resources)")
# Of a driver that has given its device up; to this process it does not come back.
_LOST = re.compile(r"OpenCL error -2\b|Vulkan error -4\b")
# A failure of the native runtime on a device, in front of what it says.
_CODED = re.compile(r"^.*?\bodtc \d+: ")
# Of a device without a driver, or with one that may not be opened.
_NO_DRIVER = re.compile(r"there is no OpenCL here|Vulkan's library cannot be opened")
FITS = "check that the artifact fits the device, and that the device is still there"
DRIVER = (
    "install the driver of its GPU, or compile the model for its CPU; whether programs that adb "
    "starts may open a phone's driver is up to its vendor"
)
SMALLER = (
    "compile the model with a --memory-budget (`odtc plan` says which can be met), or for a "
    "smaller batch"
)


def what_fits(reason: str) -> str:
    """What to do about a device that cannot run an artifact."""
    return DRIVER if _NO_DRIVER.search(reason) else FITS


def is_out_of_memory(error: Exception) -> bool:
    """Whether one of `FAILURES` says that something cannot be allocated, before anything ran."""
    return bool(_NOT_ALLOCATED.search(str(error)))


def why_not_allocated(error: Exception) -> str:
    """The driver's own message, as the end of one of ours; empty where it has none."""
    found = _NOT_ALLOCATED.search(str(error))
    return f": {found['why']}" if found and found["why"] else ""


@contextmanager
def device_errors(name: str) -> Iterator[None]:
    """TVM's failures become a device error that names the device."""
    try:
        yield
    except FAILURES as error:
        raise explained(error, name) from error


def explained(error: Exception, name: str) -> DeviceError:
    """The error for a failure of TVM, or of a driver under it."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    reason = _CODED.sub("", reason)
    if _LOST.search(reason):
        return DeviceLostError(
            f"the device was lost: {reason}",
            where=name,
            hint="start anew from the last checkpoint: `odtc train --checkpoint FILE --resume`",
        )
    asked = _NOT_ALLOCATED.search(reason)
    if asked and asked["bytes"]:
        return DeviceError(
            f"there is no memory for a buffer of {int(asked['bytes']):,} bytes: {asked['why']}",
            where=name,
            hint=SMALLER,
        )
    return DeviceError(
        f"the device failed: {reason}",
        where=name,
        hint=SMALLER if asked or _OUT_OF_MEMORY.search(reason) else what_fits(reason),
    )
