"""Tunes the kernels of a model's training step: `odtc tune`.

read, differentiate -> tasks -> tune them by a measurer -> compile with and without, and compare
"""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from odtc.artifact import Artifact
from odtc.autoschedule.tuning import database
from odtc.autoschedule.tuning.record import Device, gpu_device, place_of
from odtc.autoschedule.tuning.target_records import known_device
from odtc.autoschedule.tuning.tasks import TuningTask, Writer, tasks_of
from odtc.autoschedule.tuning.tuning import Tuning, TuningLimits, TuningState
from odtc.backends.cpus import CPU
from odtc.backends.objects.link import find_linker
from odtc.backends.targets import Target
from odtc.core.errors import NumericError, UsageError
from odtc.core.process.progress import Progress, silent
from odtc.core.process.side_by_side import cores as all_cores
from odtc.driver.compilation import compile_step
from odtc.driver.options.option import checked
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.driver.training import Step
from odtc.runtime_rpc.connect import connect, reconnect
from odtc.runtime_rpc.data.drawn import drawn
from odtc.runtime_rpc.fit import check_architecture
from odtc.runtime_rpc.guards.limits import DEFAULT, Limits
from odtc.runtime_rpc.metrics.cooldown import Cooldown, heat_now
from odtc.runtime_rpc.sessions.local import gpu_here
from odtc.runtime_rpc.sessions.session import Session
from odtc.tuner.benches import MEASURE_SECONDS, Cool, DeviceBench, HostBench, never
from odtc.tuner.kernel_measurer import KernelMeasurer

# Tasks that are measured at once for each device, so that it measures while others are built.
_AHEAD = 2
# Of one device, or of this machine.
_WIDTH = 4
# Steps that nobody looks at, and how far losses of the same step may be from each other.
_WARM_UP, _TOLERANCE = 2, 1e-3


@dataclass(frozen=True, eq=False)
class Work:
    """A step whose kernels are tuned.

    Attributes:
        model: path of the ONNX file.
        options: that it is compiled with.
        step: its training graph.
        tasks: what there is to tune.
    """

    model: str | os.PathLike[str]
    options: StepOptions
    step: Step
    tasks: Sequence[TuningTask]

    @property
    def target(self) -> Target:
        """The target that it is compiled for, resolved."""
        return self.step.source.target

    @property
    def file(self) -> Path:
        """The database."""
        named = self.options.database
        return Path(named) if named else database.user_database()


def work_on(
    model: str | os.PathLike[str], target: Target, options: StepOptions, progress: Progress
) -> Work:
    """A step with its tasks to tune; see `odtc.compile` for arguments and errors."""
    options = checked(options, "odtc.compile")
    step = prepare(model, target, options, progress)
    progress("look for what can be tuned")
    tasks = tasks_of(*step.kernels, has_half=step.source.has_half)
    return Work(model, options, step, tasks)


def tune(
    work: Work,
    devices: Sequence[str],
    limits: TuningLimits,
    watch: Callable[[TuningState], None],
    say: Progress,
    cooldown: Cooldown | None = None,
) -> TuningState:
    """Tunes, and keeps what was measured in the work's database.

    Args:
        work: what to tune.
        devices: that measure side by side; this machine where there are none.
        limits: when to stop.
        watch: is told how far it is.
        say: is told of devices that went away, and of heat.
        cooldown: what is waited for before kernels are measured.

    Raises:
        UsageError: this machine is not what the target says, or the devices are not alike.
        DeviceError: there is no device, or none is left.
        DataError, OutputError: the database cannot be read or written.
        BuildError: there is no linker.
    """
    # Without one every kernel would count as failed, and be kept as such.
    find_linker(work.target)
    writer = Writer(work.target, work.step.source.has_half)
    # So that a file that cannot be written is told before anything is measured.
    database.add(work.file, ())
    cool = _cooling(cooldown, say) if cooldown else never
    with _kernel_measurer(work, writer, devices, say, cool) as (measurer, device):
        width = max(_WIDTH, _AHEAD * len(devices))
        place = place_of(work.target, device)
        tuning = Tuning(work.tasks, writer, measurer, place, work.file, width=width, watch=watch)
        return tuning.run(limits)


@contextmanager
def _kernel_measurer(
    work: Work, writer: Writer, devices: Sequence[str], lost: Progress, cool: Cool
) -> Iterator[tuple[KernelMeasurer, Device]]:
    """The measurer, and the kind of device that it measures on."""
    target, threads = work.target, work.target.threads or 1
    if devices:
        device = _alike({url: device_at(url, target) for url in devices})
        limits = dataclasses.replace(DEFAULT, run=MEASURE_SECONDS)
        benches = [DeviceBench(_opener(url, target, limits), threads, cool) for url in devices]
        cores = all_cores()
    else:
        device, benches = _here(target), [HostBench(target.kind, threads, cool)]
        # OpenCL on a CPU takes all of them.
        cores = all_cores() - threads if target.kind == CPU else 0
    with KernelMeasurer(work.tasks, writer, benches, cores=cores, lost=lost) as measurer:
        yield measurer, device


def _cooling(cooldown: Cooldown, say: Progress) -> Cool:
    """Waits for a temperature, and says where it stayed higher."""

    def cool(session: Session) -> None:
        late = cooldown.wait(lambda: heat_now(session), say)
        if late:
            say(late)

    return cool


def _here(target: Target) -> Device:
    device = known_device(target, gpu_here)
    if device is None:
        raise UsageError(
            f"kernels for {target.name} cannot be measured on this machine",
            where=target.spec,
            hint="name devices with --devices, or tune for host-cpu",
        )
    return device


def _opener(url: str | None, target: Target, limits: Limits = DEFAULT) -> Callable[[], Session]:
    """What opens sessions on a device that was asked what it is."""
    return lambda: reconnect(url, limits).on(target.kind)


def device_at(url: str, target: Target) -> Device:
    """The fingerprint of a device behind a tracker, as one that a resolved target is for.

    Raises:
        DeviceError: there is none, it is of another architecture, or has no device of the target's
            kind.
    """
    session = connect(url).on(target.kind)
    try:
        check_architecture(session, target.triple, target.spec, "target")
        info = session.info()
        found = (
            Device(str(info.get("machine", "")), str(target.mcpu))
            if target.kind == CPU
            else gpu_device(session.gpu(), target)
        )
        return dataclasses.replace(found, emulated=bool(info["emulated"]))
    finally:
        session.close()


def _alike(devices: dict[str, Device]) -> Device:
    """The one that all are.

    Raises:
        UsageError: they are not alike, so that times of one would be taken for those of another.
    """
    first, *others = devices.items()
    for url, device in others:
        if device != first[1]:
            raise UsageError(
                f"the devices are not alike: one is {first[1].name}, another one {device.name}",
                where=url,
                hint="tune on devices of one kind at a time",
            )
    return first[1]


@dataclass(frozen=True)
class Comparison:
    """A step before and after, in turns.

    Attributes:
        before: seconds of steps whose kernels follow the model of the target.
        after: of steps with what was measured.
        tuned: kernels of those that have other loops.
        emulated: whether the times mean nothing.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    tuned: int
    emulated: bool = False

    @property
    def ratios(self) -> list[float]:
        """Before over after, round by round, rising."""
        return sorted(b / a for b, a in zip(self.before, self.after, strict=True))


def compare(work: Work, devices: Sequence[str], rounds: int, progress: Progress) -> Comparison:
    """Measures the step without and with what is in the database.

    Raises:
        NumericError: their losses differ by more than rounding.
        OdtcError: as of `odtc.compile`; a device is lost.
    """
    options = work.options
    if devices:
        device = device_at(devices[0], work.target)
        options = dataclasses.replace(options, device=device)

    def compiled(*, tuned: bool) -> Artifact:
        asked = dataclasses.replace(options, tuned=tuned)
        return compile_step(Path(work.model), work.target, asked, None, silent)

    progress("compile the step as it was")
    before = compiled(tuned=False)
    progress("compile the step as it is")
    after = compiled(tuned=True)
    session = _opener(devices[0] if devices else None, work.target)()
    try:
        progress(f"measure both in {rounds} rounds")
        samples = list(_in_turns((before, after), session, work.target.threads, rounds))
        emulated = bool(session.info()["emulated"])
    finally:
        session.close()
    first, second = zip(*samples, strict=True)
    return Comparison(first, second, len(after.manifest.tuned), emulated)


def _in_turns(
    artifacts: Sequence[Artifact], session: Session, threads: int | None, rounds: int
) -> Iterator[tuple[float, ...]]:
    """Seconds of a step of each artifact, in each round after two that nobody looks at."""
    trainers = [artifact.trainer(session, threads=threads) for artifact in artifacts]
    x, y = next(drawn(artifacts[0].manifest))
    for number in range(_WARM_UP + rounds):
        seconds, losses = [], []
        for trainer in trainers:
            begin = perf_counter()
            losses.append(trainer.step(x, y, 0.0))
            seconds.append(perf_counter() - begin)
        _check_alike(*losses)
        if number >= _WARM_UP:
            yield tuple(seconds)


def _check_alike(before: float, after: float) -> None:
    if not math.isclose(before, after, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        raise NumericError(
            f"the step with other loops has the loss {after:g}, where it had {before:g}",
            hint="leave the records out with --no-tuned, and report this",
        )
