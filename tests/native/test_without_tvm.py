"""A process that trains with the native engine imports no TVM, and needs none."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import odtc
from tests.native.parity import TARGET, tvm_trainer
from tests.numeric.mlp import mlp_artifact

ALONE = """
import importlib.metadata, sys

def missing(name, version=importlib.metadata.version):
    if name.startswith("apache-tvm"):
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

if "without" in sys.argv:
    sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
    importlib.metadata.version = missing

import numpy as np
import odtc

artifact = odtc.load(sys.argv[1])
trainer = artifact.trainer(threads=2)
x, y = np.ones((8, 8), np.float32), np.arange(8) % 5
print(trainer.step(x, y, lr=0.05).hex())
trainer.set_budget("1GiB")
trainer.follow_memory()
with trainer.profile() as profiling:
    print(*(loss.hex() for loss in trainer.train([(x, y)] * 3, lr=0.05)))
assert len(profiling.profile.steps) == 3
trainer.evaluate(x[:5], ema=True)
trainer.save_checkpoint(sys.argv[2] + "/c")
trainer.load_checkpoint(sys.argv[2] + "/c")
trainer.set_parameters(trainer.parameters())
trainer.use_threads(1, "all")
trainer.export_onnx(sys.argv[2] + "/m.onnx", verify="without" in sys.argv)
loaded = [name for name in ("tvm", "tvm_ffi") if sys.modules.get(name)]
assert not loaded, loaded
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    update = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), update, target=TARGET)


@pytest.mark.parametrize("how", ["with", "without"])
def test_a_process_that_trains_imports_no_tvm(
    artifact: odtc.Artifact, how: str, tmp_path: Path
) -> None:
    """And needs none to be installed."""
    artifact.save(path := tmp_path / "m.odtc")
    command = [sys.executable, "-c", ALONE, str(path), str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr[-2000:]
    first, others = done.stdout.splitlines()
    x, y = np.ones((8, 8), np.float32), np.arange(8) % 5
    tvm = tvm_trainer(artifact, threads=1)
    assert [first, *others.split()] == [tvm.step(x, y, lr=0.05).hex() for _ in range(4)]
