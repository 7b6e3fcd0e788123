"""Sampling a session's device for as long as a block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from odtc.core.errors import DeviceError, UsageError
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import ANYTHING, PATH, REAL
from odtc.runtime_rpc.metrics.samples import Samples, read_samples
from odtc.runtime_rpc.metrics.usage import Usage, usage_of
from odtc.runtime_rpc.server.measure.measuring import START_SAMPLING, STOP
from odtc.runtime_rpc.tracker.told import understood

PERIOD = 0.01
# Below, Python's own thread would show in the samples; above, a step would be missed.
_LEAST, _MOST = 0.001, 60.0


class Sampled(Protocol):
    """The part of a session that sampling needs."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def measure(self, name: str, *arguments: Any) -> Any: ...  # noqa: D102
    def info(self) -> dict[str, Any]: ...  # noqa: D102


class Sampling:
    """Samples of a block, once it has ended."""

    _samples: Samples | None = None

    @property
    def samples(self) -> Samples:
        """Returns the samples of the block.

        Raises:
            UsageError: the block has not ended.
        """
        if self._samples is None:
            raise UsageError(
                "there are no samples yet", hint="read them after the block that samples"
            )
        return self._samples

    @property
    def usage(self) -> Usage:
        """Returns the resource usage of the block.

        Raises:
            UsageError: the block has not ended.
        """
        return usage_of(self.samples)

    def end(self, samples: Samples) -> None:
        """Sets the samples, once."""
        self._samples = samples


@takes("session.sampling", session=ANYTHING, period=REAL, root=PATH)
@contextmanager
def sampling(session: Sampled, period: float = PERIOD, root: str = "/") -> Iterator[Sampling]:
    """Samples a session's device within the block.

    Args:
        session: any; TVM's own server does not support it.
        period: seconds between samples, from 0.001 to 60.
        root: on the device, of `/proc` and `/sys`; another one is a fixture, and is said to be.

    Raises:
        UsageError: the period is out of its bounds.
        DeviceError: the device's server cannot sample, or failed.
    """
    if not _LEAST <= period <= _MOST:
        raise UsageError(
            f"the period is {period:g} s", hint=f"give one from {_LEAST:g} to {_MOST:g}"
        )
    found = Sampling()
    number = session.measure(START_SAMPLING, period, root)
    try:
        yield found
    except BaseException:
        # The block's own error takes precedence.
        with suppress(DeviceError):
            session.measure(STOP, number)
        raise
    text = str(session.measure(STOP, number))
    emulated = bool(session.info()["emulated"])
    with understood("the device", session.name):
        samples = read_samples(text, emulated=emulated)
    found.end(samples)
