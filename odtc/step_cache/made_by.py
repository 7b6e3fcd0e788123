"""The inputs of a compile beside the user's: this version, and this machine.

What were left out here would give the step of another odtc, or for another processor, without a
word; what is too much gives a compile. So each file of the package counts.
"""

import json
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from odtc.autoschedule.tuning.record import host_device
from odtc.autoschedule.tuning.target_records import known_device
from odtc.backends.objects.link import find_linker
from odtc.backends.targets import Target
from odtc.core.disk.package_files import libraries, sources
from odtc.core.errors import OdtcError
from odtc.core.process.side_by_side import cores
from odtc.runtime_rpc.sessions.local import gpu_here

# Packages that take part in a compile.
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "highspy", "numpy", "onnx", "protobuf")
_CPUINFO = Path("/proc/cpuinfo")
# Its fields by which LLVM tells processors apart, of x86 and of ARM.
_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "cpu ", "features")


def made_by(target: Target) -> str:
    """All that makes a step for a target here, as text.

    Raises:
        BuildError: there is no linker for it.
    """
    command = find_linker(target).command
    program = os.stat(command[0])
    return json.dumps(
        {
            "odtc": sources(),
            "python": sys.version,
            "packages": [version(name) for name in _PACKAGES],
            "tvm": libraries(),
            "linker": [command, program.st_size, program.st_mtime_ns],
            "machine": [platform.machine(), _processor(), cores(), repr(host_device(target))],
        }
    )


def gpu_of_this_machine(target: Target) -> str:
    """The GPU of this machine that a target is for, with its driver; empty where none answers."""
    # A compile goes on without one, too.
    with suppress(OdtcError):
        device = known_device(target, gpu_here)
        return repr(device) if device else ""
    return ""


def _processor() -> list[str]:
    """The system's description of its first processor; of systems that have none, Python's."""
    if not _CPUINFO.exists():
        return [platform.processor()]
    said = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    lines = said.split("\n\n", maxsplit=1)[0].splitlines()
    return [line for line in lines if line.lower().startswith(_FIELDS)]
