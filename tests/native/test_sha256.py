"""SHA-256 of the native runtime, with and without the instructions that a CPU has for it."""

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER, compiler_of_c
from tests.native.sanitized import PROGRAMS
from tests.needs import needs, needs_emulated_arm

SIZES = (0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 1 << 16)
ARM = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
BY_CPU = ("sha256_by_cpu.c", "cpu.c", "problem.c")


def built(compiler: list[str], folder: Path, *flags: str, by_cpu: bool) -> Path:
    sources = [PROGRAMS / "digest.c"]
    sources += [FOLDER / name for name in ("sha256.c", *(BY_CPU if by_cpu else ()))]
    words = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}", *flags]
    words += [] if by_cpu else ["-DPORTABLE"]
    output = folder / "digest"
    subprocess.run([*compiler, *words, *map(str, sources), "-o", str(output)], check=True)
    return output


def check(*command: str) -> None:
    for size in SIZES:
        data = np.random.default_rng(size).bytes(size)
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        assert done.stdout.decode().split() == [hashlib.sha256(data).hexdigest()] * 2, size


@needs(cc_command(), reason="no C compiler")
@pytest.mark.parametrize("by_cpu", [True, False])
def test_on_this_machine(by_cpu: bool, tmp_path: Path) -> None:
    check(str(built(compiler_of_c(), tmp_path, by_cpu=by_cpu)))


@needs_emulated_arm()
def test_under_emulation(tmp_path: Path) -> None:
    program = built([ARM[0]], tmp_path, "-static", by_cpu=True)
    check(ARM[1], "-cpu", "cortex-a53", str(program))
