"""No second copy of the parameters exists while a step runs: measured on a fresh process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from tests.fast import fast_if

LAYERS, WIDTH, BATCH = 8, 2048, 4

_STEPS = """
import json, sys
import numpy as np
import odtc

def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))

artifact = odtc.load(sys.argv[1])
import odtc.runtime_rpc.trainer
manifest = artifact.manifest
x, y = np.ones(manifest.inputs[0].shape, np.float32), np.zeros(manifest.batch, int)
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = resident("VmRSS")
trainer = artifact.trainer(threads=1)
for _ in range(3):
    trainer.step(x, y, lr=1e-4)
print(json.dumps(resident("VmHWM") - before))
"""


_ONE_AFTER_ANOTHER = """
import ctypes, json, sys
import numpy as np
import odtc

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

sizes = []
for path in sys.argv[1:]:
    artifact = odtc.load(path)
    manifest = artifact.manifest
    x, y = np.ones(manifest.inputs[0].shape, np.float32), np.zeros(manifest.batch, int)
    trainer = artifact.trainer(threads=1)
    trainer.step(x, y, lr=1e-4)
    del artifact, trainer, x, y
    # What the C library keeps of freed memory is not meant.
    ctypes.CDLL(None).malloc_trim(0)
    sizes.append(resident())
print(json.dumps(sizes))
"""


def wide_model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32) for _ in range(LAYERS)
    ]
    names = [f"h{index}" for index in range(LAYERS + 1)]
    nodes = [
        helper.make_node("Gemm", [names[i], f"w{i}"], [names[i + 1]], f"fc{i}", transB=1)
        for i in range(LAYERS)
    ]
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [BATCH, WIDTH])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [BATCH, WIDTH])],
        [numpy_helper.from_array(value, f"w{index}") for index, value in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONE = WIDTH * WIDTH * 4
SLACK = 3_000_000


@pytest.mark.parametrize(
    ("options", "state", "gradients"),
    [
        # A norm over all gradients needs all of them before the first update.
        ({"clip_norm": 1.0}, 0, LAYERS),
        # Each is added to its accumulator at once, and the norm is that of the accumulators.
        ({"clip_norm": 1.0, "accumulate": 2}, LAYERS, 1),
        ({"accumulate": 2, "ema": 0.9}, 2 * LAYERS, 1),
        ({"clip_value": 1.0}, 0, 1),
    ],
)
def test_gradients_that_are_alive_at_once(
    options: dict[str, float], state: int, gradients: int, tmp_path: Path
) -> None:
    onnx.save(wide_model(), tmp_path / "wide.onnx")
    update = odtc.Update(odtc.SGD(), **options)
    sizes = odtc.compile(tmp_path / "wide.onnx", optimizer=update).manifest.sizes
    assert sizes.optimizer == state * ONE
    assert gradients * ONE <= sizes.train_step < (gradients + 0.5) * ONE


@pytest.mark.parametrize("momentum", fast_if(bool, [0.0, 0.9]))
def test_peak_is_parameters_state_and_one_gradient(momentum: float, tmp_path: Path) -> None:
    onnx.save(wide_model(), tmp_path / "wide.onnx")
    optimizer = odtc.SGD(momentum=momentum)
    artifact = odtc.compile(tmp_path / "wide.onnx", optimizer=optimizer)
    artifact.save(tmp_path / "wide.odtc")
    sizes = artifact.manifest.sizes
    assert sizes.parameters == LAYERS * ONE
    assert sizes.optimizer == (LAYERS * ONE if momentum else 0)
    # One gradient at a time, and the activations.
    assert sizes.train_step < 1.5 * ONE
    result = subprocess.run(
        [sys.executable, "-c", _STEPS, tmp_path / "wide.odtc"],
        check=True,
        capture_output=True,
        text=True,
    )
    grown = json.loads(result.stdout)
    # While a weight is read it is there twice more: as it was read, and as pages of its file.
    kept = sizes.parameters + sizes.optimizer
    assert kept + sizes.train_step < grown < kept + max(sizes.train_step, 2 * ONE) + SLACK


@pytest.mark.slow
def test_arenas_do_not_outlive_the_next_trainer(tmp_path: Path) -> None:
    onnx.save(wide_model(), tmp_path / "wide.onnx")
    paths, arenas = [], []
    # Arenas of unlike sizes: what is left of one does not serve the next.
    for batch in (3000, 3200):
        artifact = odtc.compile(tmp_path / "wide.onnx", batch=batch, optimizer=odtc.SGD())
        paths.append(tmp_path / f"{batch}.odtc")
        artifact.save(paths[-1])
        arenas.append(artifact.manifest.sizes.train_step)
    assert min(arenas) > 10 * ONE
    result = subprocess.run(
        [sys.executable, "-c", _ONE_AFTER_ANOTHER, *paths],
        check=True,
        capture_output=True,
        text=True,
    )
    first, second = json.loads(result.stdout)
    assert second - first < arenas[0] // 2


def test_cross_entropy_stores_no_probability(tmp_path: Path) -> None:
    """Of the size of the logits there are these and their adjoint, and nothing else."""
    labels, width, classes = 64, 16, 30_000
    weight = np.random.default_rng(0).standard_normal((width, classes), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "vocabulary",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [labels, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [labels, classes])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "vocabulary.onnx")
    sizes = odtc.compile(tmp_path / "vocabulary.onnx", optimizer=odtc.SGD()).manifest.sizes
    assert sizes.train_step < 2.05 * labels * classes * 4
