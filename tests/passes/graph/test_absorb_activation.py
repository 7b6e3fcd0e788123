"""Batch normalisations apply the rectifiers after them, where no other reader sees them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from odtc.dialect.elements.pointwise import relu6
from odtc.dialect.images.batch_norm import batch_norm
from odtc.passes.graph.absorb_activation import AbsorbActivation, activated
from tests.numeric.conftest import listing, relative_error

SHAPE = (2, 3, 4, 5)


def step(kind: str) -> tvm.IRModule:
    """A normalisation with something after it."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    rest = [relax.Var(f"p{i}", relax.TensorType((3,), "float32")) for i in range(4)]
    with builder.function("step", [x, *rest]):
        with builder.dataflow():
            found = builder.emit(batch_norm(x, *rest, epsilon=1e-5, momentum=0.1, activation=""))
            first = builder.emit(relax.TupleGetItem(found, 2 if kind == "statistic" else 0))
            activation = {"relu6": relu6, "tanh": R.tanh}.get(kind, R.nn.relu)
            result = builder.emit(activation(first))
            if kind == "read-twice":
                result = builder.emit(R.add(result, first))
            given = builder.emit_output(result)
        builder.emit_func_output(given)
    return builder.finalize()


@pytest.mark.parametrize("kind", ["relu", "relu6"])
def test_absorbed(kind: str) -> None:
    module = step(kind)
    assert len(activated(module["step"])) == 1
    after = AbsorbActivation("step").run(module)
    relax.analysis.well_formed(after)
    assert not activated(after["step"])
    bindings = after["step"].body.blocks[0].bindings
    assert str(bindings[0].value.attrs["activation"]) in ("relax.nn.relu", relu6.name)
    assert isinstance(bindings[2].value, relax.TupleGetItem)


@pytest.mark.parametrize("kind", ["read-twice", "statistic", "tanh"])
def test_left_alone(kind: str) -> None:
    module = step(kind)
    assert not activated(module["step"])
    tvm.ir.assert_structural_equal(AbsorbActivation("step").run(module)["step"], module["step"])


@pytest.mark.parametrize("high", [None, 6.0])
def test_a_training_step(high: float | None, tmp_path: Path) -> None:
    """Values, statistics and all gradients, against PyTorch in double precision."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((1, *SHAPE[1:])),
        # Wide enough to reach both ends of a clip.
        "gamma": rng.uniform(3, 9, 3),
        "beta": rng.uniform(0, 6, 3),
        "mean": rng.standard_normal(3),
        "variance": rng.uniform(1, 2, 3),
    }
    parameters = ["h", "gamma", "beta", "mean", "variance"]
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("BatchNormalization", parameters, ["n"], momentum=0.8),
        helper.make_node("Relu", ["n"], ["a"])
        if high is None
        else helper.make_node("Clip", ["n", "low", "high"], ["a"]),
        helper.make_node("Flatten", ["a"], ["y"]),
    ]
    constants = {} if high is None else {"low": np.float32(0), "high": np.float32(high)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
        [
            numpy_helper.from_array(np.asarray(value, np.float32), name)
            for name, value in (weights | constants).items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(listing(model, weights), tmp_path / "model.onnx")
    trainer = odtc.compile(tmp_path / "model.onnx").trainer()
    reference = TorchTrainer(model, lr=0.1, dtype=torch.float64)
    for _ in range(3):
        x = rng.standard_normal(SHAPE).astype(np.float32)
        y = rng.integers(0, 60, SHAPE[0])
        assert trainer.step(x, y, lr=0.1) == pytest.approx(reference.step(x, y), rel=1e-4)
    expected = reference.parameters()
    for name, value in trainer.parameters().items():
        assert relative_error(value, expected[name]) < 1e-4, name
