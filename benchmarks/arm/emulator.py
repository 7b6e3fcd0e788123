"""Runs a program of 64-bit ARM in QEMU with the plugin that counts, and reads what it wrote."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.arm.blocks import Block, read_blocks, read_mappings
from benchmarks.arm.blocks import Mapping as Mapped
from benchmarks.arm.cores import Core
from odtc.core.errors import BuildError
from odtc.core.process.native_library import kept_library
from odtc.runtime_rpc.native.build import compiler_of_c

# The one with plugins: Debian's qemu-user-static has none.
EMULATOR = "qemu-aarch64"
# The C library that comes with Debian's compiler for 64-bit ARM.
ROOT = Path("/usr/aarch64-linux-gnu")
_SOURCE = Path(__file__).parent / "count.c"
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
_SECONDS = 3600
# A CPU that has all instructions which kernels use.
_ANY = "max,sve=off"


@dataclass(frozen=True)
class Counted:
    """What a guest did, with the caches of a core.

    Attributes:
        said: what it printed.
        steps: the blocks of each step that was counted.
        mappings: of its memory, at the end.
    """

    said: str
    steps: Sequence[Sequence[Block]]
    mappings: Sequence[Mapped]


def alike(cores: Sequence[Core]) -> list[Core]:
    """Cores that are emulated as one CPU: code that is compiled already is the same on each."""
    return [replace(core, emulated=_ANY) for core in cores]


def plugin(folder: Path) -> Path:
    """The plugin, in a file of a folder; it is compiled once for each version.

    Raises:
        BuildError: there is no C compiler, or it failed.
    """
    compiler = compiler_of_c()

    def build(output: Path) -> None:
        subprocess.run([*compiler, *_FLAGS, str(_SOURCE), "-o", str(output)], check=True)

    path = folder / "count.so"
    words = " ".join((*compiler, *_FLAGS)).encode()
    path.write_bytes(kept_library([_SOURCE.read_bytes(), words], build))
    return path


def count(
    command: Sequence[str],
    cores: Sequence[Core],
    folder: Path,
    root: Path = ROOT,
    variables: Mapping[str, str] | None = None,
) -> list[Counted]:
    """Runs a guest that counts its steps from 0 on, and leaves its memory map in `maps`.

    What it did is told for each core, as caches of all are simulated in one run.

    Args:
        command: the program and its words.
        cores: whose caches are simulated, at most four; all are emulated as the same CPU.
        folder: that what is counted is written to, in which the guest runs.
        root: with the loader and the libraries of the guest.
        variables: of its environment.

    Raises:
        BuildError: the emulator is not installed, or the guest failed.
        ValueError: the cores are not emulated as one CPU.
    """
    (cpu,) = {core.emulated for core in cores}
    if not (found := shutil.which(EMULATOR)):
        raise BuildError(
            f"{EMULATOR} is not installed: it counts what a step does on ARM",
            hint="run `apt-get install qemu-user`",
        )
    caches = (
        f"l{n}={each.kib}x{each.ways}" for core in cores for n, each in enumerate(core.caches, 1)
    )
    options = ",".join([str(plugin(folder)), f"out={folder / 'counts'}", *caches])
    given = [word for item in (variables or {}).items() for word in ("-E", "=".join(item))]
    emulated = [found, "-cpu", cpu, "-L", str(root), *given, "-plugin", options, *command]
    done = subprocess.run(
        emulated, capture_output=True, text=True, cwd=folder, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise BuildError(f"an emulated step failed: {(done.stderr or done.stdout)[-2000:]}")
    mappings = read_mappings(folder / "maps")
    return [Counted(done.stdout, _steps(folder, n), mappings) for n in range(len(cores))]


def _steps(folder: Path, core: int) -> list[list[Block]]:
    """What was counted of a core; its files go."""
    files = sorted(folder.glob(f"counts.{core}.*"), key=lambda path: int(path.suffix[1:]))
    steps = [list(read_blocks(path)) for path in files]
    for path in files:
        path.unlink()
    return steps
