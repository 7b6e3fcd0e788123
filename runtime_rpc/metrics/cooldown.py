"""Waits until a device is as cool as it was at first."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from odtc.core.process.progress import Progress
from odtc.runtime_rpc.metrics.samples import Samples

if TYPE_CHECKING:
    from odtc.runtime_rpc.sessions.session import Session

# Seconds between two readings of the temperature, and the longest wait.
PAUSE_SECONDS, LIMIT_SECONDS = 2.0, 600.0
# Zones of the cores; a battery's or a charger's temperature is independent of theirs.
_OF_CORES = ("cpu", "soc", "pkg", "core", "tsens")

UNKNOWN = "cooldown: no temperature is readable"


def heat_of(samples: Samples) -> float | None:
    """Degrees Celsius of the hottest zone of the cores, or of all zones where none is of cores.

    None where no temperature is readable.
    """
    last = {
        name.lower(): series.values[-1]
        for name, series in samples.series.items()
        if name.startswith("temperature.") and series.values
    }
    ours = [heat for name, heat in last.items() if any(word in name for word in _OF_CORES)]
    return max(ours or last.values(), default=None)


def heat_now(session: "Session", root: str = "/") -> float | None:
    """The temperature of a session's device, see `heat_of`.

    Args:
        session: any; TVM's own server does not support it.
        root: on the device, of `/proc` and `/sys`.

    Raises:
        DeviceError: the device's server cannot sample, or failed.
    """
    with session.sampling(root=root) as sampling:
        pass
    return heat_of(sampling.samples)


class Cooldown:
    """Waits before measurements.

    Args:
        target: degrees Celsius; that of the first look if None.
        limit: seconds that a wait may take.
        pause: seconds between looks.
    """

    def __init__(
        self,
        target: float | None = None,
        limit: float = LIMIT_SECONDS,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._target, self._limit, self._pause = target, limit, pause
        self._told = False

    def wait(self, look: Callable[[], float | None], progress: Progress) -> str:
        """Waits until the device is cool enough.

        Args:
            look: reads the temperature; None where it is not readable, which is reported once.
            progress: called with the state of the wait.

        Returns:
            A note where the device stayed hotter; else ''.
        """
        deadline = time.monotonic() + self._limit
        while True:
            heat = look()
            if heat is None:
                if not self._told:
                    progress(UNKNOWN)
                self._told = True
                return ""
            if self._target is None:
                self._target = heat
            if heat <= self._target:
                return ""
            if time.monotonic() >= deadline:
                return f"began at {heat:.1f} °C, above {self._target:.1f} °C"
            progress(f"cooling down: {heat:.1f} °C, to {self._target:.1f} °C")
            time.sleep(self._pause)
