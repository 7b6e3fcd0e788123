"""Operators that read one tensor more than once: gradients are those of PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F  # noqa: N812

import odtc
from odtc.backends.lowering import to_kernels
from odtc.backends.targets import parse_target
from odtc.core.ir.product_marks import PRODUCT
from odtc.core.process.progress import silent
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare

W = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 4
Arrays = dict[str, np.ndarray]
Make = Callable[[torch.Tensor], torch.Tensor]


def node(kind: str, given: list[str], result: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(kind, given, [result], **attrs)


TURNED = node("Transpose", ["h"], "t", perm=[0, 2, 1])
# Nodes from `h` to `y`, and the same in PyTorch; what follows the product is fused with it.
SQUARES: dict[str, tuple[list[onnx.NodeProto], Make]] = {
    "product": ([node("MatMul", ["h", "h"], "y")], lambda h: h @ h),
    "left turned": ([TURNED, node("MatMul", ["t", "h"], "y")], lambda h: h.mT @ h),
    "right turned": ([TURNED, node("MatMul", ["h", "t"], "y")], lambda h: h @ h.mT),
    "added to itself": (
        [TURNED, node("MatMul", ["h", "t"], "m"), node("Add", ["m", "h"], "y")],
        lambda h: h @ h.mT + h,
    ),
    "attention of itself": (
        [
            TURNED,
            node("MatMul", ["h", "t"], "m"),
            node("Softmax", ["m"], "s", axis=-1),
            node("MatMul", ["s", "h"], "y"),
        ],
        lambda h: (h @ h.mT).softmax(-1) @ h,
    ),
}


def trained(
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    at: Path,
) -> tuple[float, Arrays]:
    """The loss of a step of mean squares, and the weights after it."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape)
        for name, each in (("x", x), ("y", y))
    ]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph), at / "m.onnx")
    with odtc.compile(at / "m.onnx", loss="mse") as artifact:
        trainer = artifact.trainer()
        loss = trainer.step(x, y, lr=0.1)
        return loss, trainer.parameters()


@pytest.mark.parametrize("name", SQUARES)
def test_a_tensor_times_itself(name: str, tmp_path: Path) -> None:
    nodes, make = SQUARES[name]
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((4, 8, 8)).astype(np.float32) for _ in range(2))
    first = node("MatMul", ["x", "w"], "h")
    loss, found = trained([first, *nodes], {"w": W}, x, y, tmp_path)
    w = torch.tensor(W, requires_grad=True)
    expected = F.mse_loss(make(torch.tensor(x) @ w), torch.tensor(y))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert w.grad is not None
    np.testing.assert_allclose(found["w"], W - 0.1 * w.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_it_has_the_loops_of_a_product(tmp_path: Path) -> None:
    """Without them it would be right, and slow."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 8, 8)) for name in "xy"]
    nodes = [node("MatMul", ["x", "w"], "h"), node("MatMul", ["h", "h"], "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(W, "w")])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    step = prepare(tmp_path / "m.onnx", parse_target("host-cpu"), StepOptions(loss="mse"), silent)
    module, *others = step.kernels
    assert PRODUCT not in to_kernels(module, *others).script()


def test_a_convolution_with_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    y = rng.standard_normal((8, 8, 1, 1)).astype(np.float32)
    kernel = rng.standard_normal((8, 8, 1, 1)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "k"], "h"),
        node("Conv", ["h", "h"], "c"),
        node("Relu", ["c"], "y"),
    ]
    loss, found = trained(nodes, {"k": kernel}, x, y, tmp_path)
    k = torch.tensor(kernel, requires_grad=True)
    h = F.conv2d(torch.tensor(x), k)
    expected = F.mse_loss(F.conv2d(h, h).relu(), torch.tensor(y))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert k.grad is not None
    np.testing.assert_allclose(found["k"], kernel - 0.1 * k.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_scale_that_is_the_shift(tmp_path: Path) -> None:
    """A convolution that normalises what it reads reads both."""
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((4, 8, 6, 6)).astype(np.float32) for _ in range(2))
    weights = {
        "k": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
        "s": rng.standard_normal(8).astype(np.float32),
        "m": np.zeros(8, np.float32),
        "v": np.ones(8, np.float32),
        "l": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "k"], "c"),
        helper.make_node(
            "BatchNormalization", ["c", "s", "s", "m", "v"], ["b", "m2", "v2"], training_mode=1
        ),
        node("Relu", ["b"], "r"),
        node("Conv", ["r", "l"], "y"),
    ]
    loss, found = trained(nodes, weights, x, y, tmp_path)
    k, s, last = (torch.tensor(weights[name], requires_grad=True) for name in "ksl")
    normal = F.batch_norm(F.conv2d(torch.tensor(x), k), None, None, s, s, training=True)
    expected = F.mse_loss(F.conv2d(normal.relu(), last), torch.tensor(y))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, tensor in zip("ksl", (k, s, last), strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(
            found[name], weights[name] - 0.1 * tensor.grad.numpy(), rtol=1e-4, atol=1e-5
        )
