"""What every benchmark says beside its numbers: the machine, the versions, and the spread."""

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

PACKAGES = ("odtc", "apache-tvm", "torch", "onnxruntime-training", "onnx", "numpy")


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of raw samples.

    Attributes:
        median: the middle of the samples.
        lower: first quartile.
        upper: third quartile.
    """

    median: float
    lower: float
    upper: float

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """`median (lower to upper)`, each times `scale`."""
        middle, low, high = (
            f"{value * scale:.{digits}f}" for value in (self.median, self.lower, self.upper)
        )
        return f"{middle} ({low} to {high})"


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles of at least one sample."""
    lower, median, upper = np.percentile(samples, [25, 50, 75])
    return Spread(float(median), float(lower), float(upper))


def machine() -> dict[str, str | int]:
    """The CPU, the number of cores that this process may use, and the system."""
    return {
        "cpu": _cpu_name(),
        "cores": core_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that are compared, as far as they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def affinity_kept() -> Iterator[None]:
    """Undoes what the block does to the calling thread's affinity.

    TVM's thread pool binds the thread that configures it to one core; threads that another engine
    starts afterwards would inherit that core.
    """
    before = os.sched_getaffinity(0)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
