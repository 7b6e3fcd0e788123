"""The files for an Android app, under emulation: they have the bits of the trainer behind TVM RPC.

The very `libodtc.so` and kernels of the archives run here, in a process whose C library is glibc:
under Android's names it has stubs that lead to that. What bionic would say is the gate's part.
"""

import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.export import export_app
from odtc.backends.objects.stub_library import stub_library
from odtc.backends.objects.system_libraries import bionic_names
from odtc.runtime_rpc.native.build import FOLDER
from tests.needs import needs

PROGRAM = Path(__file__).parents[1] / "app" / "programs" / "by_name.c"
COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = ("qemu-aarch64-static", "-cpu", "cortex-a76", "-L", "/usr/aarch64-linux-gnu")
BATCH, STEPS = 8, 4

pytestmark = [
    pytest.mark.device,
    needs(
        *map(shutil.which, (COMPILER, EMULATOR[0], "javac")),
        reason="no compiler for 64-bit ARM, no emulator, or no JDK",
    ),
]


def test_it_trains_to_the_same_bits(phone, tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    # Of AdamW kernels call powf, and all of them memset.
    artifact = odtc.compile(path, "android-cpu", batch=BATCH, optimizer=odtc.AdamW())
    export_app(artifact, "android", tmp_path / "app", "digits")
    libraries, assets = tmp_path / "libraries", tmp_path / "assets" / "odtc" / "digits"
    libraries.mkdir()
    for archive in (tmp_path / "app").glob("*.aar"):
        with zipfile.ZipFile(archive) as members:
            members.extractall(tmp_path)
            for name in members.namelist():
                if name.startswith("jni/"):
                    (libraries / Path(name).name).write_bytes(members.read(name))
    assert {each.name for each in libraries.iterdir()} == {"libodtc.so", "libdigits_kernels.so"}
    names = bionic_names("aarch64") | {
        "libdl.so": stub_library("libdl.so", "aarch64", needed=["libdl.so.2"])
    }
    for name, content in names.items():
        (libraries / name).write_bytes(content)
    app = tmp_path / "by_name"
    command = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}", str(PROGRAM)]
    command += [str(libraries / "libodtc.so"), "-Wl,--allow-shlib-undefined", "-o", str(app)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [
            *(*EMULATOR, "-E", f"LD_LIBRARY_PATH={libraries}", str(app), str(assets)),
            *("libdigits_kernels.so", str(STEPS), "2", str(tmp_path / "checkpoint")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    x = (np.arange(BATCH * 64) * 37 % 101).astype(np.float32) / np.float32(50) - np.float32(1)
    y = np.arange(BATCH, dtype=np.int32) % 10
    with artifact.trainer(device=phone.url) as trainer:
        wanted = [trainer.step(x.reshape(BATCH, 1, 8, 8), y, lr=0.01) for _ in range(STEPS)]
    assert [float.fromhex(line) for line in done.stdout.splitlines()] == wanted
