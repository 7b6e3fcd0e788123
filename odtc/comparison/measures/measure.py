"""Facts that every benchmark reports beside its numbers: machine, versions and spread."""

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

# The widest first, each with the word of Linux.
_VECTORS = {"AVX-512": "avx512f", "AVX2": "avx2", "SVE": "sve", "NEON": "asimd"}
# All of a clone that what is measured can depend on, as git takes it.
SOURCES = (".", ":(exclude)docs", ":(exclude)*.md")
PACKAGES = ("odtc", "apache-tvm", "torch", "onnxruntime-training", "MNN", "onnx", "numpy")


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
    """The CPU and its kind of core, how many cores this process may use, and the system.

    A virtual machine may name CPUs of several generations alike, and one can be twice as fast as
    another: `core` is LLVM's name, such as znver5, as `odtc compile` prints it. It is not there
    without TVM.
    """
    core = _core_name()
    return {
        "cpu": _cpu_name(),
        **({"core": core} if core else {}),
        "cores": core_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def cpu_text(machine: Mapping[str, Any]) -> str:
    """`AMD EPYC (znver5)`, of what `machine` returned here or in an older version."""
    named = str(machine.get("cpu", "a CPU"))
    return f"{named} ({machine['core']})" if machine.get("core") else named


def instructions() -> str:
    """The widest vectors that the CPU computes with, such as AVX-512; empty if unknown."""
    flags = _said_of_cpu("flags", "Features").split()
    return next((name for name, flag in _VECTORS.items() if flag in flags), "")


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


def busy_share(seconds: float = 0.5) -> float:
    """The share, from 0 to 1, of the cores it may use that other programs keep busy now."""
    import psutil

    before = time.process_time()
    cores = psutil.cpu_percent(interval=seconds, percpu=True)
    allowed = [cores[core] for core in os.sched_getaffinity(0) if core < len(cores)]
    own = (time.process_time() - before) / seconds / core_count()
    return max(0.0, sum(allowed) / len(allowed) / 100 - own)


def commit(root: Path = Path(__file__).parents[3]) -> str:
    """The commit that odtc runs from; '' outside of a clone.

    A mark says that files differ from it, other than pages and results (`SOURCES`): these decide
    nothing that is measured, and change as figures come in.
    """
    if not (root / ".git").exists():
        return ""
    try:
        found = _git(root, "rev-parse", "--short=12", "HEAD")
        found.check_returncode()
        differs = _git(root, "diff", "--quiet", "HEAD", "--", *SOURCES).returncode
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip() + "-dirty" * bool(differs)


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
    )


def _core_name() -> str:
    try:
        from tvm.target.codegen import llvm_get_system_cpu

        return str(llvm_get_system_cpu())
    except (ImportError, AttributeError):  # No TVM, or one without LLVM.
        return ""


def _cpu_name() -> str:
    return _said_of_cpu("model name") or platform.processor() or "unknown"


def _said_of_cpu(*keys: str) -> str:
    """A field of the first core in `/proc/cpuinfo`, by one of its names; empty if missing."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    said = (line.partition(":")[2].strip() for line in lines if line.startswith(keys))
    return next(said, "")
