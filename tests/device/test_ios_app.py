"""Kernels for iOS, under emulation: they have the bits of those for Linux on such a CPU.

A program for 64-bit ARM maps an image of the kernels and their table, as dyld would, and the
runtime takes steps by that table. Of iOS itself, and an iPhone's CPU, it says nothing.
"""

import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.export import export_app
from odtc.runtime_rpc.native.build import FOLDER
from tests.app.apple import CLANG, LINKER, PROGRAMS, compile_objects, link_image
from tests.native.parity import unpacked
from tests.needs import needs

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = ("qemu-aarch64-static", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu")
STEPS = 4

pytestmark = [
    pytest.mark.device,
    needs(
        *(CLANG, LINKER, shutil.which(COMPILER), shutil.which(EMULATOR[0])),
        reason="no clang or ld64.lld, no compiler for 64-bit ARM, or no emulator",
    ),
]


def test_they_train_to_the_same_bits(tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    ios, linux = (
        odtc.compile(path, target, batch=8, optimizer=odtc.AdamW())
        for target in ("ios-cpu", "linux-arm64-cpu{mcpu=apple-a12}")
    )
    export_app(ios, "ios", app := tmp_path / "app", "digits")
    model = app / "DigitsModel/Sources/DigitsModelTable"
    folders = (model / "include", app / "OdtcRuntime/Sources/COdtc/include")
    table = compile_objects([model / "kernels.c"], folders, tmp_path)
    framework = app / "DigitsModel/DigitsModelKernels.xcframework"
    image = tmp_path / "image"
    link_image(table, framework / "ios-arm64/libdigits_kernels.a", image)
    program = str(tmp_path / "mach_o")
    sources = [str(PROGRAMS / "mach_o.c"), *map(str, sorted(FOLDER.glob("*.c")))]
    command = [COMPILER, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}"]
    command += [*sources, "-o", program, "-lpthread", "-ldl", "-lm"]
    subprocess.run(command, check=True)

    def losses(image: Path, table: str, members: Path, threads: int) -> list[str]:
        paths = (image, members / "program.bin", members / "parameters.safetensors")
        done = subprocess.run(
            [*EMULATOR, program, *map(str, paths), table, str(STEPS), str(threads)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    of_linux, of_ios = unpacked(linux, tmp_path / "linux"), unpacked(ios, tmp_path / "ios")
    wanted = losses(of_linux / "step.so", "-", of_linux, 1)
    assert len(set(wanted)) == STEPS
    for threads in (1, 2):
        assert losses(image, "_odtc_model_digits", of_ios, threads) == wanted
