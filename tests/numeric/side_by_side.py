"""Many operators in one model, each with a parameter of its own: one compilation checks them all.

`logits = scale * sum_i op_i(x + p_i, ...)`: the gradient of `p_i` is that of the input of `op_i`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.reference.pytorch import TorchTrainer

Arrays = dict[str, np.ndarray]


def side_by_side(
    nodes: Mapping[str, str],
    shape: tuple[int, ...],
    *,
    constants: Arrays | None = None,
    parameters: Arrays | None = None,
    scale: float = 1.0,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model of operators that give tensors of one size.

    Args:
        nodes: by name, text that computes `$y` from `$h`; `$` in front of a name makes it its own.
        shape: of the input.
        constants: read by any of them.
        parameters: for each of them a copy, `$name`.
        scale: of the logits; a small one keeps them away from where the loss is flat.
        opset: version of the operator set.
    """
    weights: Arrays = {}
    text = []
    for name, node in nodes.items():
        weights[f"{name}_p"] = np.zeros((1, *shape[1:]), np.float32)
        weights |= {f"{name}_{k}": v for k, v in (parameters or {}).items() if f"${k}" in node}
        lines = f"$h = Add (x, $p) {node} $z = Reshape ($y, rows)"
        text.append(lines.replace("$", f"{name}_"))
    results = ", ".join(f"{name}_z" for name in nodes)
    text.append(f"total = Sum ({results}) logits = Mul (total, scale)")
    fixed = {"rows": np.array([shape[0], -1]), "scale": np.float32(scale), **(constants or {})}
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {' '.join(text)} }}").node,
        "side_by_side",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(value, name) for name, value in {**weights, **fixed}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def gradients(model: onnx.ModelProto, x: np.ndarray, save: Callable[..., Path]) -> Arrays:
    """Returns each parameter's change in one step; all that PyTorch would train are trained."""
    names = TorchTrainer(model, lr=1.0).parameters()
    # Where a parameter is as long as the batch, nothing else says that its axis is the first.
    compiled = odtc.compile(save(model), train=list(names), batch_axis={"x": 0})
    trainer = compiled.trainer()
    before = trainer.parameters()
    trainer.step(x, np.zeros(len(x), int), lr=1.0)
    return {name: before[name] - value for name, value in trainer.parameters().items()}


def torch_gradients(model: onnx.ModelProto, x: np.ndarray) -> Arrays:
    """The same by PyTorch."""
    trainer = TorchTrainer(model, lr=1.0)
    before = trainer.parameters()
    trainer.step(x, np.zeros(len(x), int))
    return {name: before[name] - value for name, value in trainer.parameters().items()}


def check(model: onnx.ModelProto, x: np.ndarray, save: Callable[..., Path]) -> None:
    """All gradients are those of PyTorch, element by element."""
    ours, theirs = gradients(model, x, save), torch_gradients(model, x)
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        size = max(float(np.nanmax(np.abs(expected))), 1e-3)
        atol = max(2e-5 * size, _rounding(theirs, name))
        np.testing.assert_allclose(ours[name], expected, rtol=1e-4, atol=atol, err_msg=name)


def _rounding(theirs: Arrays, name: str) -> float:
    """Returns the rounding error of cancelling terms: a parameter's are gradients that `p` sums."""
    terms = theirs.get(f"{name.rpartition('_')[0]}_p", np.zeros(1))
    return 4 * float(np.finfo(np.float32).eps * np.nansum(np.abs(terms)))
