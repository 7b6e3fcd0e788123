"""Kernels that are no file of their own: found by name, as in an app's package, or linked in."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx

import odtc
from benchmarks.models.digits import digits_model
from odtc.artifact import Artifact
from odtc.core.artifact.library_file import build_id
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER
from tests.native.parity import TARGET, bits, unpacked
from tests.native.reader import read
from tests.native.sanitized import PROGRAMS
from tests.needs import needs

pytestmark = needs(cc_command(), reason="no C compiler")


def table_of(members: Path) -> str:
    """A table of the kernels in C, as of a program that is linked with them."""
    program = read((members / "program.bin").read_bytes())
    names = sorted({kernel for each in program.functions for kernel, _ in each["calls"]})
    digest = bytes.fromhex(build_id(members / "step.so"))
    lines = [f"int {name}(void *, const void *, int32_t, void *);" for name in names]
    lines += ["extern void *__TVMBackendParallelLaunch;"]
    lines += ["static const struct odtc_named_kernel named[] = {"]
    lines += [f'  {{"{name}", {name}, &__TVMBackendParallelLaunch}},' for name in names]
    lines += ["};", "static const odtc_kernels odtc_kernels_of_test = {"]
    lines += [f"  {{{', '.join(map(str, digest))}}},"]
    lines += [f"  {len(names)}, named,", "};"]
    return "\n".join(lines)


def first_loss(artifact: Artifact, batch: int) -> str:
    """The bits of the loss of a step with zeros."""
    with artifact.trainer(threads=1) as trainer:
        x, y = np.zeros((batch, 1, 8, 8), np.float32), np.zeros(batch, np.int32)
        return bytes.fromhex(bits(trainer.step(x, y, lr=0.05)))[::-1].hex()


def test_by_name_and_linked_in(tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    artifact = odtc.compile(path, TARGET, batch=8, optimizer=odtc.SGD(momentum=0.9))
    smaller = odtc.compile(path, TARGET, batch=4)
    other = unpacked(smaller, tmp_path / "other")
    members = unpacked(artifact, tmp_path / "artifact")
    folder = tmp_path / "libraries"
    folder.mkdir()
    shutil.copy(members / "step.so", folder / "libone_kernels.so")
    shutil.copy(other / "step.so", folder / "libother_kernels.so")
    (tmp_path / "table.h").write_text(table_of(members))
    # As kernels that are linked in, a library that the loader loads with the program: its symbols
    # are in front of those of the others.
    shutil.copy(members / "step.so", tmp_path / "step.so")
    sources = [str(PROGRAMS / "sources.c"), *map(str, sorted(FOLDER.glob("*.c")))]
    command = [*cc_command(), "-std=c11", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command += [
        f"-I{FOLDER}",
        f'-DKERNELS_FILE="{tmp_path / "table.h"}"',
        *sources,
        str(tmp_path / "step.so"),
    ]
    command += ["-o", str(tmp_path / "sources"), f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*command, "-lpthread", "-ldl", "-lm"], check=True)
    done = subprocess.run(
        [
            *(tmp_path / "sources", members / "program.bin", members / "parameters.safetensors"),
            *("libone_kernels.so", other / "program.bin", other / "parameters.safetensors"),
            "libother_kernels.so",
        ],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    no_source, named, two_sources, linked, another, misfit, missing = done.stdout.splitlines()
    assert no_source == two_sources
    assert no_source == "1 one of a path of the library, its name, and a table of kernels is needed"
    digest = build_id(members / "step.so")
    assert named == linked == first_loss(artifact, 8)
    # Of a model whose library is loaded beside the other's, and has the same symbols.
    assert another == first_loss(smaller, 4)
    assert misfit.startswith("4 libother_kernels.so ")
    assert digest[:8] in misfit or "has no kernel" in misfit
    assert missing.startswith("4 the library cannot be loaded: libnone.so: cannot open")
