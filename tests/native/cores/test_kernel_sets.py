"""Kernels for several CPUs in one library: which of them run on which machine.

Machines with fewer instructions are emulated by QEMU, which ends a program at one that they lack.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.backends.cpus import CORES
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER, compiler_of_c
from odtc.runtime_rpc.native.interface import Code
from tests.native.parity import unpacked
from tests.native.sanitized import PROGRAMS
from tests.needs import needs, needs_emulated_arm, needs_two_cores, needs_x86
from tests.numeric.mlp import mlp_artifact
from tests.runtime_rpc.trees import plant

X86, ARM = (
    "host-cpu{mcpu=x86-64-v3+x86-64-v2,threads=2}",
    "linux-arm64-cpu{mcpu=cortex-a76+cortex-a53}",
)
ARM_SYSTEM = Path("/usr/aarch64-linux-gnu")
ARM_COMPILER = "aarch64-linux-gnu-gcc"
A53, A55, A76, A78 = 0x410FD030, 0x410FD050, 0x410FD0B0, 0x411FD410

# In C, and the members of an artifact that it runs.
Program = tuple[Path, Path]

emulated_x86 = needs(
    shutil.which("qemu-x86_64-static"),
    cc_command(),
    reason="no emulator of x86-64, or no compiler",
)
emulated_arm = needs_emulated_arm()
on_x86 = needs_x86("kernels for x86-64")


def compiled(compiler: Sequence[str], output: Path) -> Path:
    """The program that says which kernels run."""
    sources = [str(PROGRAMS / "sets.c"), *map(str, sorted(FOLDER.glob("*.c")))]
    command = [*compiler, "-std=c11", "-O1", "-Wall", "-Werror", f"-I{FOLDER}", *sources]
    subprocess.run([*command, "-o", str(output), "-lpthread", "-ldl", "-lm"], check=True)
    return output


def run(made: Program, emulator: Sequence[str], *actions: str) -> subprocess.CompletedProcess[str]:
    """Runs the program on a machine."""
    program, members = made
    paths = (str(members / name) for name in ("program.bin", "parameters.safetensors", "step.so"))
    command = [*emulator, str(program), *paths, *actions]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def x86(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("x86"), odtc.SGD(), target=X86)


@pytest.fixture(scope="module")
def x86_program(x86: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("program")
    return compiled(compiler_of_c(), folder / "sets"), unpacked(x86, folder / "artifact")


@pytest.fixture(scope="module")
def arm_program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("arm")
    artifact = mlp_artifact(folder, odtc.SGD(), target=ARM)
    return compiled([ARM_COMPILER], folder / "sets"), unpacked(artifact, folder / "artifact")


@on_x86
@emulated_x86
@pytest.mark.parametrize(
    ("machine", "core"), [("Haswell", "x86-64-v3"), ("max", "x86-64-v3"), ("Nehalem", "x86-64-v2")]
)
def test_a_machine_runs_what_it_can(machine: str, core: str, x86_program: Program) -> None:
    done = run(x86_program, ("qemu-x86_64-static", "-cpu", machine), "-", "-")
    assert done.returncode == 0, done.stderr
    before, first, _, second, after = done.stdout.split()
    assert {before, after} == {core}
    here = run(x86_program, (), "-", "-").stdout.split()
    # Sums are added up in other orders, or rounded once where others are rounded twice.
    wanted = [float.fromhex(here[n]) for n in (1, 3)]
    assert np.allclose([float.fromhex(each) for each in (first, second)], wanted, rtol=1e-5)


@on_x86
@emulated_x86
def test_a_machine_that_can_run_none(x86_program: Program) -> None:
    """The kernels that need the least say what it lacks."""
    done = run(x86_program, ("qemu-x86_64-static", "-cpu", "core2duo"))
    assert done.returncode == Code.CPU
    assert "13 the kernels need popcnt, which this CPU lacks" in done.stderr


def test_the_runtime_knows_the_cores_of_the_targets() -> None:
    named = set(re.findall(r'"(cortex-\w+)"', (FOLDER / "sets.c").read_text(encoding="utf-8")))
    assert named == CORES.keys() - {"generic"}


def machine_of(folder: Path, parts: Sequence[int]) -> Path:
    """A system of 64-bit ARM for the emulator; its cores are those parts, the last the fastest."""
    cpu = "sys/devices/system/cpu/cpu{}/"
    files = {
        f"{cpu.format(core)}{name}": text
        for core, part in enumerate(parts)
        for name, text in (
            ("regs/identification/midr_el1", f"0x{part:016x}\n"),
            ("cpufreq/cpuinfo_max_freq", f"{1800000 + core}\n"),
        )
    }
    plant(files, folder).mkdir(exist_ok=True)
    (folder / "lib").symlink_to(ARM_SYSTEM / "lib")
    return folder


@emulated_arm
@pytest.mark.parametrize(
    ("machine", "parts", "core"),
    [
        ("max", (), "cortex-a76"),
        ("cortex-a53", (), "cortex-a53"),
        ("max", (A76, A76), "cortex-a76"),
        ("max", (A78, A78), "cortex-a76"),
        # They can run the larger cores' code, and wait in it.
        ("max", (A55, A55), "cortex-a53"),
        ("cortex-a53", (A53, A53), "cortex-a53"),
        # Whatever it calls itself.
        ("cortex-a53", (A76, A76), "cortex-a53"),
    ],
)
def test_kernels_for_the_cores_of_threads(
    machine: str, parts: Sequence[int], core: str, arm_program: Program, tmp_path: Path
) -> None:
    system = machine_of(tmp_path / "system", parts)
    emulator = ("qemu-aarch64-static", "-cpu", machine, "-L", str(system))
    done = run(arm_program, emulator, "-")
    assert done.returncode == 0, done.stderr
    before, loss, after = done.stdout.split()
    assert {before, after} == {core}
    assert np.isfinite(float.fromhex(loss))


@emulated_arm
@needs_two_cores()
def test_other_cores_have_other_kernels_until_a_step(arm_program: Program, tmp_path: Path) -> None:
    """Sums differ between sets, so a trainer that has begun keeps its own."""
    system = machine_of(tmp_path / "system", (A55, A76))
    emulator = ("qemu-aarch64-static", "-cpu", "max", "-L", str(system))
    done = run(arm_program, emulator, "0", "1", "0", "-", "1")
    assert done.returncode == 0, done.stderr
    opened, little, big, again, _, stepped, kept = done.stdout.split()
    assert opened == "cortex-a76"
    assert [little, big, again] == ["cortex-a53", "cortex-a76", "cortex-a53"]
    assert [stepped, kept] == ["cortex-a53", "cortex-a53"]
