"""C++ trains through odtc.hpp, to the bits of Python's trainer; the first examples in C compile."""

import re
import subprocess
from pathlib import Path

import numpy as np

import odtc
from odtc.core.process.cxx import cc_command, cxx_command
from odtc.runtime_rpc.native.build import FOLDER, compile_runtime, compiler_of_c
from odtc.runtime_rpc.native.interface import Code
from tests.native.parity import TARGET, tvm_trainer, unpacked
from tests.native.sanitized import PROGRAMS
from tests.needs import needs
from tests.numeric.mlp import INPUTS, mlp_artifact

STEPS = 3
# Types that class numbers do not have: those of int64 would be read as twice as many.
OTHERS = ("int64", "uint32", "float32", "bool")
# Around the second example of docs/native_runtime.md.
_AROUND = """
#include <stdio.h>
#include <string.h>
#include "odtc.h"
#define PIXELS 64
int right_of(const float *scores, const int32_t *classes, uint32_t count);
int right_among(odtc_trainer *trainer, const float *pixels, const int32_t *classes,
                uint32_t pictures) {
int right = 0;
%s
return right;
}
"""

pytestmark = needs(cc_command(), cxx_command(), reason="no C compiler++")


def test_it_trains_to_the_same_bits(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9), target=TARGET)
    folder = unpacked(artifact, tmp_path / "artifact")
    compile_runtime(compiler_of_c(), library := tmp_path / "libodtc.so")
    command = [*cxx_command(), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{FOLDER}", str(PROGRAMS / "use.cc"), str(library)]
    program = tmp_path / "use"
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}", "-o", str(program)], check=True)
    label = artifact.manifest.labels[0].spec.name
    weights = (folder / "parameters.safetensors").read_bytes()
    (other := tmp_path / "other").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    command = [str(program), str(folder), str(STEPS), label, str(other)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    x = (np.arange(1, 8 * INPUTS + 1, dtype=np.float32) / 32 - 1).reshape(8, INPUTS)
    with tvm_trainer(artifact, threads=1) as trainer:
        losses = [trainer.step(x, np.zeros(8, int), lr=0.05) for _ in range(STEPS)]
        assert [float.fromhex(line) for line in lines[:STEPS]] == losses
        trainer.save_checkpoint(tmp_path / "python")
        assert (folder / "cpp").read_bytes() == (tmp_path / "python").read_bytes()
        batch, count, last = lines[STEPS + 1].split()
        assert (int(batch), int(count)) == (8, 3)
        assert float.fromhex(last) == trainer.evaluate(x[:3]).reshape(-1)[-1]
        steps, name, value = lines[STEPS].split()
        assert (int(steps), name) == (STEPS, "y")
        assert float.fromhex(value) == trainer.evaluate(x).reshape(-1)[0]
    assert lines[STEPS + 2 : -2] == [
        *(f"1 {label} is int32, and {kind} was asked for" for kind in OTHERS),
        "1 x is float32, and float16 was asked for",
    ]
    assert int(lines[-2]) == Code.DAMAGED
    assert lines[-1] == "2 nowhere/program.bin cannot be read: No such file or directory"


def test_the_first_examples_in_c_compile(tmp_path: Path) -> None:
    """Of the header and of the page; they do not copy what has another size than the tensor."""
    header = (FOLDER / "odtc.h").read_text()
    page = (Path(__file__).parents[2] / "docs" / "native_runtime.md").read_text()
    (in_header,) = re.findall(r"\n\n((?: {7}.*\n)+)", header[: header.index("*/")])
    in_page = re.search(r"```c\n(.*?)```", page, re.S)
    assert in_page
    includes, _, code = in_page[1].partition("\n\n")
    for number, text in enumerate((in_header, code)):
        assert "label->bytes != sizeof classes" in text
        source = tmp_path / f"{number}.c"
        source.write_text(f"{includes}\nint example(void) {{\n{text}\nreturn 0;\n}}\n")
        flags = ["-std=c11", "-Wall", "-Werror", f"-I{FOLDER}", "-fsyntax-only"]
        subprocess.run([*cc_command(), *flags, str(source)], check=True)


def test_the_loop_over_samples_compiles(tmp_path: Path) -> None:
    """Of the page, within a function of what an app has at that point."""
    page = (Path(__file__).parents[2] / "docs" / "native_runtime.md").read_text()
    (code,) = re.findall(r"```c\n(odtc_tensor scores;\n.*?)```", page, re.S)
    (source := tmp_path / "loop.c").write_text(_AROUND % code)
    flags = ["-std=c11", "-Wall", "-Werror", f"-I{FOLDER}", "-fsyntax-only"]
    subprocess.run([*cc_command(), *flags, str(source)], check=True)
