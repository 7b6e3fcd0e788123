"""A process that only trains imports neither TVM nor ONNX, which take far more than a step."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import odtc
from tests.numeric.mlp import batches, mlp_artifact

TRAINS = """
import json, sys
import numpy as np
import odtc

trainer = odtc.load("m.odtc").trainer(threads=1)
trainer.step(np.load("x.npy"), np.load("y.npy"), lr=0.1)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
LARGE = {"tvm", "onnx", "google", "ml_dtypes", "torch", "onnxruntime", "rich", "matplotlib"}


def test_training_imports_nothing_large(tmp_path: Path) -> None:
    mlp_artifact(tmp_path, odtc.SGD()).save(tmp_path / "m.odtc")
    ((x, y),) = batches(1)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    done = subprocess.run(
        [sys.executable, "-c", TRAINS],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert not done.returncode, done.stderr
    found = LARGE & {*json.loads(done.stdout)}
    assert not found
