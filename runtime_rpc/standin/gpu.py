"""A GPU for the stand-in: PoCL for aarch64 computes on the emulated cores, as an OpenCL device.

PoCL starts a linker for each kernel. The system can start programs of its own machine only, so that
the linker is a script, which runs the real one in the emulator.
"""

import shutil
from pathlib import Path

from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.standin.root import EMULATOR, Extra, build_root
from odtc.runtime_rpc.standin.tools import find_tool

_PACKAGES = ("pocl-opencl-icd", "ocl-icd-libopencl1", "binutils")
_SHELL = "/busybox"
_LINKERS, _REAL_LINKER = ("ld", "aarch64-linux-gnu-ld"), "/usr/bin/aarch64-linux-gnu-ld.bfd"


def build_gpu_root(progress: Progress = silent) -> Path:
    """The root folder of a phone with a GPU; it is built unless it is in the cache already.

    Raises:
        BuildError: a tool is missing or failed, or the cache cannot be written.
    """
    return build_root(
        progress, Extra(_PACKAGES, Path(__file__).read_bytes(), _finish, ("busybox",))
    )


def _finish(root: Path, _: Progress) -> None:
    shutil.copy(find_tool("busybox"), f"{root}{_SHELL}")
    for name in _LINKERS:
        linker = root / "usr/bin" / name
        linker.unlink(missing_ok=True)
        linker.write_text(f'#!{_SHELL} sh\nexec {EMULATOR} {_REAL_LINKER} "$@"\n')
        linker.chmod(0o755)
