"""Kernels for several cores on 64-bit ARM, under emulation: the bits of TVM behind RPC."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks import native_runtime
from odtc.runtime_rpc.native.build import FOLDER
from tests.device.arm_builds import COMPILER, EMULATOR
from tests.native.parity import unpacked
from tests.needs import needs_emulated_arm
from tests.numeric.plans.test_memory_budget import tower

STEPS = 3

pytestmark = [pytest.mark.device, needs_emulated_arm()]


def test_the_first_of_them_trains_to_the_same_bits(phone, tmp_path: Path) -> None:
    """TVM runs the kernels of the first of several cores, and so does this runtime on that one."""
    onnx.save(tower(layers=2), path := tmp_path / "tower.onnx")
    target = "linux-arm64-cpu{mcpu=cortex-a76+cortex-a53}"
    artifact = odtc.compile(path, target, batch=4, optimizer=odtc.AdamW())
    folder = unpacked(artifact, tmp_path / "artifact")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(artifact.manifest.inputs[0].shape, np.float32)
    y = np.arange(4, dtype=np.int32)
    (folder / "batch.bin").write_bytes(x.tobytes() + y.tobytes())
    sources = [str(Path(native_runtime.__file__).with_name("steps.c"))]
    sources += map(str, sorted(FOLDER.glob("*.c")))
    command = [COMPILER, "-std=c11", "-O2", "-Wall", "-Werror", f"-I{FOLDER}", *sources]
    program = str(tmp_path / "steps")
    subprocess.run([*command, "-o", program, "-lpthread", "-ldl", "-lm"], check=True)
    members = (str(folder / each) for each in ("program.bin", "parameters.safetensors", "step.so"))
    done = subprocess.run(
        [*EMULATOR, program, *members, "2", str(folder / "batch.bin")],
        input="." * STEPS,
        capture_output=True,
        text=True,
        check=True,
    )
    losses = [float.fromhex(line.split()[1]) for line in done.stdout.splitlines()]
    with artifact.trainer(device=phone.url) as trainer:
        assert losses == [trainer.step(x, y, lr=0.01) for _ in range(STEPS)]
