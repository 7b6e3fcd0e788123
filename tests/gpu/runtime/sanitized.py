"""`python -m tests.gpu.runtime.sanitized`: tests of GPUs, with sanitizers in the native runtime.

What is wrong with an address, or not defined in C, ends the process with a report. Kernels of
GPUs are the drivers', and have none; what those of CPUs touch, `python -m tests.guarded` shows.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).parent
_SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
_COMPILER = {"CC": f"gcc {_SANITIZERS} -fno-omit-frame-pointer -g"}
_TESTS = ("runtime/test_gpu_faults", "runtime/test_gpu_profile", "test_gpu_training")
# Those that compile the runtime themselves.
_VULKAN = ("test_launches", "test_copies", "test_cache", "test_shaders")
# A compiler with the sanitizers' libraries in it takes minutes.
_WITHOUT = "not built_once and not compiler"
_BUILD = "from odtc.runtime_rpc.native.build import *; runtime_library(GPUS)"


def main(argv: Sequence[str]) -> int:
    """Builds the runtime, and runs the tests; the code of pytest's.

    Args:
        argv: what pytest is given; by default tests that take all ways through it.
    """
    libraries = " ".join(_library(name) for name in ("libasan.so", "libubsan.so"))
    with tempfile.TemporaryDirectory() as cache:
        built = {**os.environ, "XDG_CACHE_HOME": cache, **_COMPILER}
        subprocess.run([sys.executable, "-c", _BUILD], env=built, check=True)
        # Python, TVM and the drivers hold what they have to the end.
        run = {**built, "LD_PRELOAD": libraries, "ASAN_OPTIONS": "detect_leaks=0"}
        vulkan = _FOLDER.parents[1] / "native" / "vulkan"
        files = [str(_FOLDER.parent / f"{name}.py") for name in _TESTS]
        files += [str(vulkan / f"{name}.py") for name in _VULKAN]
        given = list(argv) or [*files, "-k", _WITHOUT]
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *given]
        return subprocess.run(command, env=run, check=False).returncode


def _library(name: str) -> str:
    command = ["g++", f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
