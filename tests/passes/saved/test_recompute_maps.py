"""A gate's function is computed again in the backward pass: fewer bytes, and the same bits."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import odtc
from odtc.core.artifact.memory_plan import Kind
from odtc.passes.saved.recompute_maps import RecomputeMaps
from tests.numeric.conftest import weight

BATCH, WIDTH, INNER, CLASSES = 8, 24, 1024, 5
SHAPES = {"g": (WIDTH, INNER), "u": (WIDTH, INNER), "d": (INNER, CLASSES)}
GATED = "a = MatMul (x, g) s = Sigmoid (a) f = Mul (a, s) b = MatMul (x, u) h = Mul (f, b)"
# Its result is read by the product after it, and stays.
PLAIN = "a = MatMul (x, g) s = Sigmoid (a) h = Mul (a, s)"


def model_of(nodes: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        gated (float[N, {WIDTH}] x) => (float[N, {CLASSES}] y) {{ {nodes} y = MatMul (h, d) }}"""
    )
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(weight(*shape), name)
        for name, shape in SHAPES.items()
        if name in read
    )
    return model


def saved(artifact: odtc.Artifact) -> int:
    """Tensors of the inner layer that wait for the backward pass."""
    plan = artifact.memory.plan
    return sum(tensor.spec.shape == (BATCH, INNER) for tensor in plan.of_kind(Kind.SAVED))


@pytest.mark.parametrize(("nodes", "waiting"), [(GATED, (3, 4)), (PLAIN, (2, 2))])
def test_bits_stay(
    nodes: str, waiting: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, found = tmp_path / "m.onnx", []
    onnx.save(model_of(nodes), path)
    x = np.random.default_rng(0).standard_normal((BATCH, WIDTH)).astype(np.float32)
    labels = np.arange(BATCH) % CLASSES
    for number in range(2):
        if number:
            monkeypatch.setattr(RecomputeMaps, "run", lambda _, module: module)
        artifact = odtc.compile(path, batch=BATCH)
        assert saved(artifact) == waiting[number]
        trainer = artifact.trainer()
        losses = [float(trainer.step(x, labels, lr=0.1)) for _ in range(3)]
        found.append((losses, trainer.parameters()))
    assert found[0][0] == found[1][0]
    for name, array in found[0][1].items():
        assert (array == found[1][1][name]).all()
