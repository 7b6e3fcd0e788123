"""Memory and heat of a run's device, asked for now and then between two steps."""

import time

from odtc.core.errors import DeviceError, DeviceLostError
from odtc.runtime_rpc.metrics.cooldown import heat_of
from odtc.runtime_rpc.sessions.session import Session

# A look takes a call or two to the device.
_SECONDS = 5.0


class Vitals:
    """What is known of a device; an emulated one has no heat.

    Args:
        session: where steps run.
    """

    def __init__(self, session: Session) -> None:
        self._session: Session | None = session
        self._last = -_SECONDS
        self._text = ""

    def text(self) -> str:
        """Such as `212 MiB, 41 °C`, of a few seconds ago at most; '' of what tells neither.

        Raises:
            DeviceLostError: the device went away.
        """
        if self._session and time.monotonic() - self._last >= _SECONDS:
            self._last = time.monotonic()
            try:
                self._text = _look(self._session)
            except DeviceLostError:
                raise
            except DeviceError:  # TVM's own server tells nothing
                self._session = None
        return self._text


def _look(session: Session) -> str:
    with session.sampling() as sampling:
        pass
    samples = sampling.samples
    resident, heat = samples.series.get("resident"), heat_of(samples)
    said = [f"{int(resident.values[-1]) >> 20} MiB"] if resident and resident.values else []
    if heat is not None and not session.info()["emulated"]:
        said.append(f"{heat:.0f} °C")
    return ", ".join(said)
