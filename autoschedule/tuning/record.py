"""The record of one measured choice of a kernel, and of where it was measured."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import version
from statistics import quantiles
from typing import Any

from odtc.backends.cpus import CPU
from odtc.backends.decisions import Choice, Value
from odtc.backends.targets import Target
from odtc.core.disk.sendable import sendable
from odtc.core.found_gpu import FoundGpu
from odtc.core.version import VERSION

# Least gain of a choice over the machine's model, to be used instead.
LEAST_GAIN = 1.02


# How names of Mesa's lavapipe and of PoCL's devices begin.
_CPUS_AS_GPUS = ("llvmpipe", "pthread-", "cpu-", "basic-")


class Fit(Enum):
    """How well a record fits a place; the value is a phrase for people."""

    DEVICE = "this device"
    FAMILY = "another device of its family"


@dataclass(frozen=True)
class Device:
    """The fingerprint of a device.

    Attributes:
        name: of its processor or GPU.
        family: devices of one family have the same cores, or the same GPU.
        driver: of a GPU, with its version.
        clocks: governor of its clocks.
        emulated: whether it is emulated, so that times are no results.
    """

    name: str
    family: str
    driver: str = ""
    clocks: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class TuningPlace:
    """The place that a kernel is made for.

    Attributes:
        target: see `identity_of`.
        device: that it runs on; None where unknown.
        family: of such a device; '' where unknown.
        odtc: version.
        tvm: version.
    """

    target: str
    device: Device | None
    family: str
    odtc: str
    tvm: str


@dataclass(frozen=True)
class Record:
    """One measurement of a kernel.

    Attributes:
        workload: see `odtc.backends.cost.workload`.
        target: see `identity_of`.
        device: that measured it.
        odtc: version.
        tvm: version.
        choice: decisions of the kernel; empty for those of the machine's model.
        seconds: of each call.
        usual: of each call of the usual kernel, in turns with those.
        reason: why there are no times; '' where there are.
        kept: whether it was measured again, as the best choice of its workload.
        date: of the measurement, UTC.
        modelled: seconds of a call of the usual kernel, on a core of a CPU or on all of a GPU, by
            the model of the target; 0 where it was not asked.
    """

    workload: str
    target: str
    device: Device
    odtc: str
    tvm: str
    choice: Choice
    seconds: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    reason: str = ""
    kept: bool = False
    date: str = ""
    modelled: float = 0.0

    @property
    def gain(self) -> float:
        """Time of the usual kernel over its own; 0 where there is none."""
        return typical(self.usual) / typical(self.seconds) if self.seconds else 0.0

    @property
    def is_better(self) -> bool:
        """Whether the choice is worth using."""
        return bool(self.choice) and self.gain >= LEAST_GAIN

    @property
    def key(self) -> tuple[Any, ...]:
        """The key that no two measurements of one series share."""
        of = (self.workload, self.target, self.device, self.odtc, self.tvm)
        return (*of, frozen(self.choice), self.kept)

    def fit(self, place: TuningPlace) -> Fit | None:
        """Returns how well it fits a place; None where it does not."""
        mine, theirs = (self.target, self.odtc, self.tvm), (place.target, place.odtc, place.tvm)
        if mine != theirs or self.device.emulated != bool(place.device and place.device.emulated):
            return None
        if self.device == place.device:
            return Fit.DEVICE
        return Fit.FAMILY if self.device.family == place.family != "" else None

    def to_json(self) -> str:
        """The record in one line, as it may be sent to others."""
        found = asdict(self) | {"reason": sendable(self.reason)}
        return json.dumps(found, separators=(",", ":"))


def typical(samples: Sequence[float]) -> float:
    """The time that a quarter of samples are below: what else a machine does only adds to them."""
    return quantiles(samples, n=4, method="inclusive")[0] if len(samples) > 1 else samples[0]


def record_of(line: str) -> Record:
    """Reads what `to_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is something else.
    """
    data = json.loads(line)
    data["device"] = Device(**data["device"])
    data["choice"] = {str(name): _value(value) for name, value in data["choice"].items()}
    data["modelled"] = float(data.get("modelled", 0.0))
    for key in ("seconds", "usual"):
        data[key] = tuple(float(each) for each in data[key])
    if bool(data["seconds"]) == bool(data["reason"]) or len(data["seconds"]) != len(data["usual"]):
        raise ValueError("a record has times or a reason")
    return Record(**data)


def _value(numbers: list[int]) -> Value:
    return tuple(int(each) for each in numbers)


def frozen(choice: Choice) -> tuple[tuple[str, Value], ...]:
    """A choice as a key."""
    return tuple(sorted((name, tuple(value)) for name, value in choice.items()))


def identity_of(target: Target) -> str:
    """All of a resolved target that kernels depend on, as text.

    Of a CPU that is what LLVM compiles for, and for how many threads; of a GPU its kind, and the
    one that its kernels are made for.
    """
    if target.kind == CPU:
        features = ",".join(sorted(target.mattr))
        return f"{target.kind} {target.triple} {target.mcpu} {features} threads={target.threads}"
    return f"{target.kind} gpu={target.gpu or 'any'}"


def place_of(target: Target, device: Device | None) -> TuningPlace:
    """The place of a resolved target; without a device, its family may follow from the target."""
    known = target.mcpu if target.kind == CPU else target.gpu
    family = device.family if device else known or ""
    return TuningPlace(identity_of(target), device, family, VERSION, version("apache-tvm"))


# Fields of /proc/cpuinfo that name the processor: of x86, and of ARM under Android.
_CPU_NAMES = ("model name", "Hardware")


def host_device(target: Target, sources: Mapping[str, str] | None = None) -> Device:
    """This machine, as a CPU that a resolved target of it compiles for.

    Args:
        target: the target.
        sources: texts of files of the system, by path; they are read if None.
    """
    cpuinfo, governor = (
        _said(path, sources)
        for path in ("/proc/cpuinfo", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    )
    name = next(
        (
            said.strip()
            for field in _CPU_NAMES
            for key, _, said in (line.partition(":") for line in cpuinfo.splitlines())
            if key.strip() == field
        ),
        platform.machine(),
    )
    return Device(name, str(target.mcpu), "", governor.strip())


def _said(path: str, sources: Mapping[str, str] | None) -> str:
    if sources is not None:
        return sources.get(path, "")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def gpu_device(found: FoundGpu, target: Target) -> Device:
    """A GPU, here or behind a session.

    What computes on a CPU in its place, whatever GPU the kernels are for, is no GPU's relative.

    Args:
        found: what it says of itself.
        target: that kernels are made for.
    """
    is_cpu = found.name.startswith(_CPUS_AS_GPUS)
    return Device(found.name, found.name if is_cpu else target.gpu or found.name, found.driver)
