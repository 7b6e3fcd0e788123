"""A small smooth network as an ONNX model and in PyTorch: no ReLU can round to another side."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.runtime_rpc.trainer import Trainer

INPUTS, HIDDEN, CLASSES = 8, 12, 5
SHAPES = {
    "fc1.weight": (HIDDEN, INPUTS),
    "fc1.bias": (HIDDEN,),
    "fc2.weight": (CLASSES, HIDDEN),
    "fc2.bias": (CLASSES,),
}
Batch = tuple[np.ndarray, np.ndarray]


def mlp_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in SHAPES.items()}


def mlp_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
        helper.make_node("Sigmoid", ["h"], ["a"], "sigmoid"),
        helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["y"], "fc2", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in mlp_weights().items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mlp_trainer(folder: Path, optimizer, batch: int = 8, **options) -> Trainer:
    return mlp_artifact(folder, optimizer, batch, **options).trainer(threads=1)


def mlp_artifact(folder: Path, optimizer, batch: int = 8, **options) -> odtc.Artifact:
    path = folder / "mlp.onnx"
    onnx.save(mlp_model(), path)
    return odtc.compile(path, batch=batch, optimizer=optimizer, **options)


def batches(count: int, batch: int = 8) -> list[Batch]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((count, batch, INPUTS), dtype=np.float32)
    return list(zip(x, rng.integers(0, CLASSES, (count, batch)), strict=True))


def blind_weight() -> dict[str, np.ndarray]:
    """The first layer without eyes for feature 0: however large that is, the loss does not see it.

    Its gradient does: with a feature of 1e6 and a scale of 2**127 it leaves float32.
    """
    weight = mlp_weights()["fc1.weight"]
    weight[:, 0] = 0.0
    return {"fc1.weight": weight}


def overflowing(data: list[Batch], at: Sequence[int]) -> list[Batch]:
    """The batches with feature 0 large in some, and 0 in the others."""
    for index, (x, _) in enumerate(data):
        x[:, 0] = 1e6 if index in at else 0.0
    return data


class TorchMlp:
    """The same network in float64; a test drives autograd and the optimizer by itself."""

    def __init__(self) -> None:
        self.weights = {
            name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
            for name, value in mlp_weights().items()
        }

    def loss(self, x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        w1, b1, w2, b2 = self.weights.values()
        hidden = torch.sigmoid(F.linear(torch.tensor(x, dtype=torch.float64), w1, b1))
        return F.cross_entropy(F.linear(hidden, w2, b2), torch.from_numpy(y).long())


def assert_same(
    values: dict[str, np.ndarray], expected: dict[str, torch.Tensor], bound: float = 1e-5
) -> None:
    """Compares weights by their change since the start."""
    start = mlp_weights()
    assert values.keys() == expected.keys()
    for name, value in values.items():
        wanted = expected[name].detach().numpy()
        moved = np.abs(wanted - start[name]).max()
        assert np.abs(value - wanted).max() <= bound * moved + 2e-6, name
