"""Measures configurations in turns; a session that one of them ends is opened again."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice

from odtc.backends.targets import Target
from odtc.core.disk.row_file import RowFile
from odtc.core.errors import DeviceError, DeviceLostError, MissingPackageError, OdtcError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.connect import connect
from odtc.runtime_rpc.feed.batches import Feed
from odtc.runtime_rpc.fit import check_on_cpu
from odtc.runtime_rpc.guards.failures import is_out_of_memory
from odtc.runtime_rpc.metrics.cooldown import Cooldown, heat_now
from odtc.runtime_rpc.metrics.samples import Samples
from odtc.runtime_rpc.metrics.throttling import busy_frequencies, throttling
from odtc.runtime_rpc.metrics.usage import usage_of
from odtc.runtime_rpc.server.measure.measuring import CAP_FREQUENCY, UNCAP_FREQUENCY
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.sweep.plan import Choices, configurations, missing
from odtc.runtime_rpc.sweep.returning import come_back
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow
from odtc.runtime_rpc.trainer import Trainer

# Warm-up steps before each measurement: threads move, clocks rise.
_WARM_UP = 2
# Of one call of a device: else its clocks sink and its power with them while it waits for the link.
_STEPS_PER_CALL = 5
OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True)
class SweepCase:
    """A step to measure.

    Attributes:
        model: its name.
        batch: samples in a step.
        target: that it is compiled for.
        start: loads it in a session; it may be compiled then.
        feed: endless inputs and labels, as of `Trainer.step`, once it was started.
    """

    model: str
    batch: int
    target: Target
    start: Callable[[Session], Trainer]
    feed: Callable[[], Iterator[tuple[Feed, Feed | None]]]


@dataclass(frozen=True)
class SweepConfig:
    """How a sweep measures.

    Attributes:
        steps: of each measurement.
        rounds: measurements of each configuration.
        cooldown: the wait before each; None for no wait.
        root: on the device, of `/proc` and `/sys`; another one is a fixture.
    """

    steps: int = 10
    rounds: int = 3
    cooldown: Cooldown | None = None
    root: str = "/"


class Sweep:
    """Cases measured by choices, into a file of rows.

    Args:
        cases: the steps.
        choices: what is varied.
        config: how it is measured.
        device: URL of one, for `odtc.connect`; None is this machine.
        progress: called with what is being measured.

    Attributes:
        frequency_note: why frequencies cannot be set, where they were to be; else empty.

    Raises:
        UsageError: cores or threads are chosen for a step on a GPU; or as of `connect`.
    """

    def __init__(
        self,
        cases: Sequence[SweepCase],
        choices: Choices,
        config: SweepConfig,
        device: str | None,
        progress: Progress = silent,
    ) -> None:
        self._cases = {(it.model, it.batch): it for it in cases}
        for case in cases:
            check_on_cpu({"threads": choices.threads, "cores": choices.cores}, case.target)
        self._choices, self._config = choices, config
        self._device, self._progress = device, progress
        self._session = connect(device)
        self._trainer: Trainer | None = None
        self.frequency_note = ""

    def run(self, file: RowFile[SweepRow]) -> None:
        """Measures the turns that have no row in the file yet.

        Raises:
            DeviceError: the device cannot be measured at all, or was lost and did not come back.
            MissingPackageError: a step needs a package that is not installed: that is no result.
            OutputError: a row cannot be written.
        """
        try:
            turns = missing(self._configurations(), self._config.rounds, file.rows)
            for key, group in groupby(turns, lambda turn: (turn[0], *_case_of(turn[1]))):
                self._measure_subject(key[0], [each for _, each in group], file)
        finally:
            with suppress(OdtcError):
                self._session.measure(UNCAP_FREQUENCY)
            self._session.close()

    def _configurations(self) -> list[Configuration]:
        self._look()
        choices, levels = self._choices, self._choices.frequencies
        if any(levels):
            reason = self._cap(next(filter(None, levels)))
            if reason:
                self.frequency_note = f"frequency: not settable ({reason})"
                self._progress(self.frequency_note)
                choices = replace(choices, frequencies=("",))
        speeds = self._session.core_speeds()
        cases = self._cases.values()
        return [
            it for s in cases for it in configurations(s.model, s.batch, choices, speeds, s.target)
        ]

    def _measure_subject(
        self, number: int, turns: list[Configuration], file: RowFile[SweepRow]
    ) -> None:
        """Measures a step that is loaded once; what cannot be done is a row, too."""
        self._trainer = None
        for configuration in turns:
            if any(row.reason and row.configuration == configuration for row in file.rows):
                continue
            said = described(configuration)
            self._progress(f"round {number + 1} of {self._config.rounds}: {said}")
            row = self._attempt(configuration, number, file.rows)
            file.add(replace(row, emulated=bool(self._session.info()["emulated"])))

    def _attempt(
        self,
        configuration: Configuration,
        number: int,
        before: list[SweepRow],
        *,
        is_first: bool = True,
    ) -> SweepRow:
        """A row; what loses its device is tried twice, as a cable may have been pulled once."""
        try:
            return self._measured(configuration, number, before)
        except DeviceLostError as error:
            # A device that does not come back raises here: that is no fault of a configuration.
            self._trainer = None
            self._session.close()
            self._session = come_back(self._device, error, self._progress)
            if is_first:
                return self._attempt(configuration, number, before, is_first=False)
            reason = error.what
        except MissingPackageError:
            raise
        except OdtcError as error:
            reason, cause = error.what, error.__cause__
            if isinstance(cause, Exception) and is_out_of_memory(cause):
                reason = f"{OUT_OF_MEMORY}: {reason}"
        except MemoryError:
            reason = OUT_OF_MEMORY
        return SweepRow(configuration, number, reason=reason)

    def _measured(
        self, configuration: Configuration, number: int, before: list[SweepRow]
    ) -> SweepRow:
        config, case = self._config, self._cases[_case_of(configuration)]
        if self._trainer is None:
            self._trainer = case.start(self._session)
        trainer, level = self._trainer, configuration.frequency
        # A step on a GPU has neither.
        trainer.use_threads(configuration.threads or None, configuration.cores or None)
        if level and (reason := self._cap(level)):
            raise DeviceError(f"frequency: not settable ({reason})")
        late = config.cooldown.wait(self._look, self._progress) if config.cooldown else ""
        heat = self._look()
        for x, y in islice(case.feed(), _WARM_UP):
            trainer.step(x, y, lr=0.0)
        clock = "host" if self._session.is_local else "device"
        seconds, samples = _MEASURE[clock](trainer, case.feed(), config)
        usage, now = usage_of(samples), busy_frequencies(samples)
        slower = throttling(frequencies_at_start(before, level), now)
        return SweepRow(
            configuration,
            number,
            seconds,
            clock,
            energy=usage.energy,
            energy_note=usage.energy_note,
            heat=heat,
            frequencies=now,
            notes=tuple(filter(None, (late, slower, self.frequency_note))),
            resident=usage.peak_resident,
            fixture=samples.fixture,
        )

    def _look(self) -> float | None:
        return heat_now(self._session, self._config.root)

    def _cap(self, level: str) -> str:
        return str(self._session.measure(CAP_FREQUENCY, level, self._config.root))


def described(configuration: Configuration) -> str:
    """A configuration for people."""
    it = configuration
    where = f", cores {it.cores}, threads {it.threads}" if it.threads else ""
    level = f", {it.frequency} frequency" if it.frequency else ""
    return f"{it.model}, batch {it.batch}{where}{level}"


def frequencies_at_start(rows: Iterable[SweepRow], level: str) -> dict[str, float]:
    """Returns the frequency of each core when it was first busy at a level."""
    found: dict[str, float] = {}
    for row in rows:
        if row.configuration.frequency == level:
            found = {**row.frequencies, **found}
    return found


def _case_of(configuration: Configuration) -> tuple[str, int]:
    return configuration.model, configuration.batch


def _by_host(
    trainer: Trainer, feed: Iterator[tuple[Feed, Feed | None]], config: SweepConfig
) -> tuple[tuple[float, ...], Samples]:
    """Times of calls by this machine's clock, the link included."""
    seconds = []
    with trainer.session.sampling(root=config.root) as sampling:
        for x, y in islice(feed, config.steps):
            began = time.perf_counter()
            trainer.step(x, y, lr=0.0)
            seconds.append(time.perf_counter() - began)
    return tuple(seconds), sampling.samples


def _by_device(
    trainer: Trainer, feed: Iterator[tuple[Feed, Feed | None]], config: SweepConfig
) -> tuple[tuple[float, ...], Samples]:
    """Times by the device's clock, without the link."""
    with trainer.profile(root=config.root) as profiling:
        list(trainer.train(islice(feed, config.steps), 0.0, _STEPS_PER_CALL))
    return profiling.profile.step_seconds, profiling.profile.samples


_MEASURE = {"host": _by_host, "device": _by_device}
