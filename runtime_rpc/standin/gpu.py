"""A GPU for the stand-in: PoCL for aarch64 computes on the emulated cores, as an OpenCL device.

odtc's OpenCL runtime is cross-compiled for it and loaded before TVM's server starts, since TVM's
wheels have none. PoCL starts a linker for each kernel. The system can start programs of its own
machine only, so that the linker is a script, which runs the real one in the emulator.
"""

import shutil
from pathlib import Path

from odtc.backends.native.build import RUNTIMES, compile_runtime
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.standin.root import EMULATOR, PACKAGES_FOLDER, Extra, build_root
from odtc.runtime_rpc.standin.tools import find_tool

LIBRARY = "/usr/lib/libodtc_opencl.so"

_PACKAGES = ("pocl-opencl-icd", "ocl-icd-libopencl1", "binutils")
_COMPILER = "aarch64-linux-gnu-g++"
_SHELL = "/busybox"
_LINKERS, _REAL_LINKER = ("ld", "aarch64-linux-gnu-ld"), "/usr/bin/aarch64-linux-gnu-ld.bfd"
_RUNTIME = RUNTIMES["opencl"]


def build_gpu_root(progress: Progress = silent) -> Path:
    """The root folder of a phone with a GPU; it is built unless it is in the cache already.

    Raises:
        BuildError: a tool is missing or failed, or the cache cannot be written.
    """
    parts = [Path(__file__), *_RUNTIME.sources]
    recipe = b"\0".join(path.read_bytes() for path in parts)
    return build_root(progress, Extra(_PACKAGES, recipe, _finish, (_COMPILER,)))


def _finish(root: Path, progress: Progress) -> None:
    progress("compiling the OpenCL runtime for aarch64")
    folders = [f"{PACKAGES_FOLDER}/{name}/lib" for name in ("tvm", "tvm_ffi")]
    links = [
        f"{root}/usr/lib/aarch64-linux-gnu/libOpenCL.so.1",
        *(f"-L{root}{folder}" for folder in folders),
        f"-Wl,-rpath,{':'.join(folders)}",
    ]
    # The headers of OpenCL are those of this machine, after the compiler's own.
    compiler = [find_tool(_COMPILER), "-idirafter", "/usr/include"]
    compile_runtime(_RUNTIME, Path(f"{root}{LIBRARY}"), compiler, links)
    shutil.copy(find_tool("busybox"), f"{root}{_SHELL}")
    for name in _LINKERS:
        linker = root / "usr/bin" / name
        linker.unlink(missing_ok=True)
        linker.write_text(f'#!{_SHELL} sh\nexec {EMULATOR} {_REAL_LINKER} "$@"\n')
        linker.chmod(0o755)
