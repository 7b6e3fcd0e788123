"""The runtime built for 64-bit ARM in three ways, and what a whole run of each leaves, as bytes.

    glibc    the runtime compiled into a program, kernels loaded from their library
    static   a program without any library: the kernels are linked in
    android  the very libodtc.so and kernels of the archives for an app, found by name

Android's C library is not here: under its names are stubs that lead to glibc.
"""

import subprocess
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import odtc
from odtc.app.export import export_app
from odtc.backends.objects.kernel_objects import Objects
from odtc.backends.objects.stub_library import stub_library
from odtc.backends.objects.system_libraries import bionic_names
from odtc.core.artifact.library_file import build_id
from odtc.core.specs import Role
from odtc.driver.sealed import sealing
from odtc.runtime_rpc.native.build import FOLDER
from odtc.runtime_rpc.trainer import Trainer
from tests.native.parity import KEPT, Batch, evaluations
from tests.native.sanitized import PROGRAMS

# The words that start a program, and where it finds its kernels.
Built = tuple[list[str], str]

COMPILER = "aarch64-linux-gnu-gcc"
CORE = "cortex-a76"
EMULATOR = ("qemu-aarch64-static", "-cpu", CORE, "-L", "/usr/aarch64-linux-gnu")
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}")
_NAME = "subject"


@contextmanager
def kept_objects() -> Iterator[list[Objects]]:
    """A block whose compiles leave the object files of their kernels in a list."""
    found: list[Objects] = []
    export = sealing.export_library

    def exported(*given: Any) -> None:
        found.append(given[-1])
        export(*given)

    with mock.patch.object(sealing, "export_library", exported):
        yield found


def runtime_objects(folder: Path) -> list[str]:
    """The runtime in object files."""
    sources = map(str, sorted(FOLDER.glob("*.c")))
    subprocess.run([COMPILER, *_FLAGS, "-c", *sources], check=True, cwd=folder)
    return [str(path) for path in sorted(folder.glob("*.o"))]


def build_glibc(runtime: Sequence[str], members: Path, _: Objects) -> Built:
    """The runtime in the program; kernels from their file."""
    program = members / "glibc"
    _compile([*runtime, "-o", str(program), "-lpthread", "-ldl", "-lm"])
    return [str(program)], str(members / "step.so")


def build_static(runtime: Sequence[str], members: Path, objects: Objects) -> Built:
    """All in the program, but for program and weights."""
    program, table = members / "static", members / "table.h"
    table.write_text(_table(objects, build_id(members / "step.so")))
    files = []
    for number, content in enumerate(objects.files.values()):
        files.append(str(members / f"{number}.o"))
        Path(files[-1]).write_bytes(content)
    flags = ["-static", f'-DKERNELS_FILE="{table}"', *runtime, *files]
    _compile([*flags, "-o", str(program), "-lpthread", "-lm"])
    return [str(program)], "-"


def build_android(artifact: odtc.Artifact, members: Path) -> Built:
    """What `odtc export-app` writes."""
    export_app(artifact, "android", members / "app", _NAME)
    libraries = members / "libraries"
    libraries.mkdir()
    for archive in (members / "app").glob("*.aar"):
        with zipfile.ZipFile(archive) as files:
            for name in files.namelist():
                if name.startswith("jni/"):
                    (libraries / Path(name).name).write_bytes(files.read(name))
    assert {each.name for each in libraries.iterdir()} == {
        "libodtc.so",
        f"lib{_NAME}_kernels.so",
    }
    names = bionic_names("aarch64") | {
        "libdl.so": stub_library("libdl.so", "aarch64", needed=["libdl.so.2"])
    }
    for name, content in names.items():
        (libraries / name).write_bytes(content)
    program = members / "android"
    runtime = str(libraries / "libodtc.so")
    _compile([runtime, "-Wl,--allow-shlib-undefined", "-o", str(program)])
    return ["-E", f"LD_LIBRARY_PATH={libraries}", str(program)], f"lib{_NAME}_kernels.so"


def _compile(words: Sequence[str]) -> None:
    source = str(PROGRAMS / "whole_run.c")
    # A static program may warn of dlopen, which it does not call.
    subprocess.run([COMPILER, *_FLAGS, source, *words], check=True, capture_output=True)


def _table(objects: Objects, digest: str) -> str:
    """The kernels of object files as a table in C."""
    signature = "(void *, const void *, int32_t, void *);"
    lines = [f"int {name}{signature}" for name in sorted({*objects.symbols.values()})]
    lines += ["extern void *__TVMBackendParallelLaunch;"]
    lines += ["static const struct odtc_named_kernel named[] = {"]
    lines += [
        f'  {{"{name}", {symbol}, &__TVMBackendParallelLaunch}},'
        for name, symbol in objects.symbols.items()
    ]
    numbers = ", ".join(map(str, bytes.fromhex(digest)))
    lines += ["};", f"static const odtc_kernels odtc_kernels_of_test = {{{{{numbers}}},"]
    lines += [f"  {len(objects.symbols)}, named}};", ""]
    return "\n".join(lines)


def run(
    built: Built,
    artifact: odtc.Artifact,
    members: Path,
    data: Sequence[Batch],
    lr: float,
    threads: int,
) -> bytes:
    """Runs a build under emulation, and returns what it wrote.

    Args:
        built: the words that start it, and where its kernels are.
        artifact: whose run it is.
        members: the folder of its files.
        data: a batch for each step.
        lr: the learning rate.
        threads: how many take part.
    """
    (members / "batches").write_bytes(b"".join(_fed(artifact, *batch) for batch in data))
    start, kernels = built
    paths = [members / "program.bin", members / "parameters.safetensors", kernels]
    plans = artifact.manifest.plans
    budgets = ",".join(str(artifact.manifest.budget_of(plan)) for plan in plans)
    words = [*paths, members / "batches", members / "results", threads, len(data), lr]
    words += [budgets if len(plans) > 1 else "-", *_outputs(artifact)]
    done = subprocess.run(
        [*EMULATOR, *start, *map(str, words)],
        cwd=members,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (members / "results").read_bytes()


def _outputs(artifact: odtc.Artifact) -> list[str]:
    manifest = artifact.manifest
    is_whole = manifest.micro_batches == 1
    return [each.output.name for each in manifest.evaluations if each.place or is_whole]


def _fed(artifact: odtc.Artifact, x: Any, y: Any) -> bytes:
    """What a step is fed, in the order of its arguments."""
    parts = []
    for role, given in ((Role.INPUT, x), (Role.LABEL, y)):
        for item in artifact.manifest.fed(role):
            value = given[item.spec.name] if isinstance(given, dict) else given
            shaped = np.broadcast_to(np.asarray(value), item.spec.shape)
            parts.append(shaped.astype(item.spec.dtype).tobytes())
    return b"".join(parts)


def by_trainer(trainer: Trainer, data: Sequence[Batch], lr: float) -> bytes:
    """The same bytes, of a trainer of odtc."""
    manifest = trainer._manifest
    losses = []
    for number, (x, y) in enumerate(data):
        trainer.set_budget(manifest.budget_of(manifest.plans[number % len(manifest.plans)]))
        losses.append(trainer.step(x, y, lr=float(np.float32(lr))))
    items = manifest.of_role(*KEPT)
    found = trainer._engine.read(items)
    kept = b"".join(found[item].tobytes() for item in manifest.arguments if item in found)
    evaluated = b"".join(each.tobytes() for each in evaluations(trainer, data[-1][0]).values())
    return np.array(losses, np.float64).tobytes() + kept + evaluated + kept


BUILDS: Mapping[str, Callable[[Sequence[str], Path, Objects], Built]] = {
    "glibc": build_glibc,
    "static": build_static,
}
