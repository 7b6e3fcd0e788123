"""Fixtures of the numeric tests: building one-node models and comparing tensors."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

Build = Callable[..., onnx.ModelProto]

IMAGE = (3, 4, 7, 6)
MATRIX = (3, 10)


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    """Random weights; those of one shape are alike unless the seed differs."""
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * 0.5).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    """A constant input of integers."""
    return np.array(values, np.int64)


def node_model(
    op_type: str,
    shape: Sequence[int],
    *,
    constants: dict[str, np.ndarray] | None = None,
    parameters: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    before: str | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """`x + p -> op -> flatten -> logits`: the gradient of `p` is that of the operator's input.

    Args:
        op_type: the operator under test; its other inputs are the constants, then the parameters.
        shape: of `x`, batch first.
        constants: other inputs that are not trained (rank 0 or integer); one without a name is left
            out.
        parameters: other inputs that are trained.
        opset: version of the operator set.
        before: an operator that keeps the input in the operator's domain, such as Exp for Log.
        attributes: of the operator.
    """
    inputs = ", ".join(["h", *(constants or {}), *(parameters or {})])
    node = f"y = {op_type} ({inputs})"
    nodes = f"h = {before} (h0) {node}" if before else node
    model = text_model(nodes, shape, constants=constants, parameters=parameters, opset=opset)
    model.graph.node[-2].attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    return model


def listing(model: onnx.ModelProto, parameters: Iterable[str]) -> onnx.ModelProto:
    """The model, with a list of those of the parameters that it has: no rule need find them."""
    held = {tensor.name for tensor in model.graph.initializer}
    lists = {"parameters": [name for name in parameters if name in held], "buffers": []}
    helper.set_model_props(model, {"odtc.weights": json.dumps(lists)})
    return model


def text_model(
    nodes: str,
    shape: Sequence[int],
    *,
    constants: dict[str, np.ndarray] | None = None,
    parameters: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """`x + p -> nodes -> flatten -> logits`, with the nodes in ONNX's text form.

    Args:
        nodes: compute `y` from `h`, or from `h0` by way of `h`: `c = Less (h, w) y = Not (c)`.
        shape: of `x`, batch first.
        constants: other inputs that are not trained.
        parameters: other inputs that are trained.
        opset: version of the operator set.
    """
    rng = np.random.default_rng(7)
    weights = {"p": rng.standard_normal((1, *shape[1:])).astype(np.float32), **(parameters or {})}
    head = "h0" if "h0" in nodes else "h"
    text = f"g () => () {{ {head} = Add (x, p) {nodes} logits = Flatten (y) }}"
    graph = helper.make_graph(
        onnx.parser.parse_graph(text).node,
        "node",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(v, k) for k, v in {**weights, **(constants or {})}.items() if k],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return listing(model, weights)


def relative_error(value: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference over the largest magnitude of the reference."""
    scale = max(float(np.abs(reference).max()), 1e-6)
    return float(np.abs(value.astype(np.float64) - reference).max()) / scale


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[onnx.ModelProto], Path]:
    """Saves a model and gives its path."""

    def save(model: onnx.ModelProto) -> Path:
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return save


@pytest.fixture(scope="module")
def saved_many(tmp_path_factory: pytest.TempPathFactory) -> Callable[[onnx.ModelProto], Path]:
    """Saves models, each in a folder of its own: examples of one property test share a fixture."""

    def save(model: onnx.ModelProto) -> Path:
        path = tmp_path_factory.mktemp("model") / "model.onnx"
        onnx.save(model, path)
        return path

    return save
