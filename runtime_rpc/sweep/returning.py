"""A device that went away in the middle of a sweep: it is waited for, as a cable may be loose."""

import time

from odtc.core.errors import DeviceError, DeviceLostError
from odtc.core.process.progress import Progress
from odtc.runtime_rpc.connect import reconnect, why_not_again
from odtc.runtime_rpc.sessions.session import Session

# As `odtc train` waits.
SECONDS = 120.0
_AGAIN_SECONDS = 1.0


def come_back(device: str | None, lost: DeviceLostError, progress: Progress) -> Session:
    """A session on a device that was lost.

    Args:
        device: its URL.
        lost: how it was lost.
        progress: is told that it is waited for.

    Raises:
        DeviceLostError: it does not come back.
        DeviceError: it was stopped.
    """
    progress(f"{lost.what}; waiting for the device")
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return reconnect(device)
        except DeviceError as error:
            if why_not_again(device):
                raise
            if time.monotonic() > deadline:
                raise DeviceLostError(
                    f"the device does not come back: {error.what}",
                    where=error.where,
                    hint="the same command goes on with what has no row yet",
                ) from lost
        time.sleep(_AGAIN_SECONDS)
