"""Operators side by side on values that are not finite, element by element against PyTorch.

`loss = mean(op_i(x + p_i, y + q_i, ...) * m_i)`: the gradient of `p_i` is that of the operator's
input, and the gradient of `m_i` has what the operator gives in training. Parameters have the batch,
so that no sum mixes what is finite with what is not.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.reference.operators import attributes, operators
from odtc.core.errors import NumericError

Arrays = dict[str, np.ndarray]

SHAPE = (24, 4, 6, 5)
_VALUES = (np.nan, np.inf, -np.inf)
# Where PyTorch's and ours are compared by value: what is left of float32 after large terms.
_RTOL = 2e-3
# Sample with a plane of equal elements, of which either may be taken for the largest.
_TIED = 22


def batch(seed: int = 3) -> np.ndarray:
    """Samples with one value that is not finite each, then with two, with a plane, with none."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(SHAPE) * 2).astype(np.float32)
    places = [tuple(rng.integers(size) for size in SHAPE[1:]) for _ in range(12)]
    first, last = (0, 0, 0), tuple(size - 1 for size in SHAPE[1:])
    for sample, place in enumerate([*[first] * 3, *[last] * 3, *places]):
        x[(sample, *place)] = _VALUES[sample % 3]
    pairs = ((np.inf, -np.inf), (np.nan, np.inf), (np.inf, np.nan), (-np.inf, np.nan))
    for sample, pair in enumerate(pairs, 18):
        x[sample, 0, 0, :2] = pair
    x[_TIED, 1] = -np.inf
    # All of it is finite, and one plane has no positive element.
    x[23, 1] = -np.abs(x[23, 1])
    return x


def model_of(
    nodes: Mapping[str, str], constants: Arrays, parameters: Arrays
) -> tuple[onnx.ModelProto, list[str]]:
    """The model, and the names of its parameters.

    Args:
        nodes: by name, text that computes `$y` from `$h`, and from `$k` if it reads it; `$` in
            front of a name makes it its own.
        constants: read by any of them.
        parameters: for each of them a copy, `$name`.
    """
    held = {"h": ("x", "p"), "k": ("y", "q")}
    weights: Arrays = {}
    text = []
    for name, node in nodes.items():
        lines = [node, "$z = Flatten ($y)"]
        for operand, (feed, own) in held.items():
            if f"${operand}" in node:
                weights[f"{name}_{own}"] = np.zeros(SHAPE, np.float32)
                lines.insert(0, f"${operand} = Add ({feed}, ${own})")
        weights |= {f"{name}_{k}": v for k, v in parameters.items() if f"${k}" in node}
        text.append(" ".join(lines).replace("$", f"{name}_"))
    first = _made(text, [f"{name}_z" for name in nodes], constants | weights)
    values = _computed(first, _values(first))
    rng = np.random.default_rng(11)
    for name in nodes:
        scale = rng.uniform(0.5, 2, values[f"{name}_z"].shape)
        weights[f"{name}_m"] = scale.astype(np.float32)
        text.append("$w = Mul ($z, $m)".replace("$", f"{name}_"))
    results = ", ".join(f"{name}_w" for name in nodes)
    text.append(f"total = Concat <axis = 1> ({results})")
    return _made(text, ["total"], constants | weights), list(weights)


def _made(text: list[str], outputs: list[str], values: Arrays) -> onnx.ModelProto:
    nodes = onnx.parser.parse_graph(f"g () => () {{ {' '.join(text)} }}").node
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "nonfinite",
        [
            helper.make_tensor_value_info(feed, TensorProto.FLOAT, SHAPE)
            for feed in ("x", "y")
            if feed in read
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in outputs],
        [numpy_helper.from_array(v, k) for k, v in values.items() if k in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def feeds_of(model: onnx.ModelProto) -> Arrays:
    """Returns values of the inputs; the second one has its infinities in other samples."""
    values = {"x": batch(), "y": np.roll(batch(5), 7, axis=0)}
    return {value.name: values[value.name] for value in model.graph.input}


def by_torch(model: onnx.ModelProto, names: list[str]) -> tuple[np.ndarray, Arrays]:
    """The result and the gradients of parameters by PyTorch, in double precision."""
    values = _values(model)
    leaves = [values[name].requires_grad_() for name in names]
    total = _computed(model, values)["total"]
    found = torch.autograd.grad(total.sum(), leaves, allow_unused=True)
    gradients = {k: v.numpy() for k, v in zip(names, found, strict=True) if v is not None}
    return total.detach().numpy(), gradients


def _values(model: onnx.ModelProto) -> dict[str, torch.Tensor]:
    """Parameters, constants and inputs."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer} | feeds_of(model)
    tensors = {name: torch.tensor(value) for name, value in arrays.items()}
    return {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}


def _computed(model: onnx.ModelProto, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """These, and what the nodes make of them."""
    table = operators(model) | {"Reshape": lambda _, x, shape: x.reshape(shape.tolist())}
    found = {"": None, **values}
    for node in model.graph.node:
        made = table[node.op_type](attributes(node), *(found[name] for name in node.input))
        found |= zip(node.output, made if isinstance(made, tuple) else (made,), strict=False)
    return found


def by_odtc(
    model: onnx.ModelProto, names: list[str], save: Callable[..., Path], target: str
) -> tuple[np.ndarray, Arrays]:
    """The same, the result by `evaluate`, and the gradients by a step."""
    compiled = odtc.compile(
        save(model),
        target=target,
        loss="in-model",
        train=names,
        batch_axis={value.name: None for value in model.graph.input},
    )
    trainer = compiled.trainer()
    feeds = feeds_of(model)
    total, before = trainer.evaluate(feeds), trainer.parameters()
    # The loss has to be NaN, and the trainer says so; the step was taken.
    with pytest.raises(NumericError, match=r"loss (is )?nan"):
        # The gradients are those of a mean: so much is as if it were the sum.
        trainer.step(feeds, lr=float(total.size))
    after = trainer.parameters()
    return total, {name: before[name] - after[name] for name in names}


def differences(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Says where two arrays are not both NaN, an infinity, or about the same number; or nothing."""
    kinds = [
        np.select([np.isnan(a), np.isinf(a)], ["nan", np.sign(a).astype(str)], "")
        for a in (ours, theirs)
    ]
    other = kinds[0] != kinds[1]
    finite = ~other & np.isfinite(theirs)
    with np.errstate(all="ignore"):
        size = np.nanmax(np.abs(theirs[finite]), initial=1e-6)
        far = finite & (np.abs(ours - theirs) > _RTOL * np.abs(theirs) + 1e-4 * size)
    wrong = np.argwhere(other | far)
    if not len(wrong):
        return ""
    at = tuple(map(int, wrong[0]))
    samples = sorted({int(place[0]) for place in wrong})
    return f"{len(wrong)} differ, of samples {samples}: {ours[at]}, PyTorch {theirs[at]} at {at}"


def failures(
    nodes: Mapping[str, str],
    constants: Arrays,
    parameters: Arrays,
    save: Callable[..., Path],
    target: str,
) -> dict[str, str]:
    """Returns the differences of operators, by the operator's name and the value that differs."""
    model, names = model_of(nodes, constants, parameters)
    total, gradients = by_odtc(model, names, save, target)
    expected, wanted = by_torch(model, names)
    ends = np.cumsum([gradients[f"{name}_m"].shape[1] for name in nodes])[:-1]
    columns = (np.split(each, ends, axis=1) for each in (total, expected))
    said = {
        f"{name}: evaluated": differences(*pair)
        for name, *pair in zip(nodes, *columns, strict=True)
    }
    for name, theirs in wanted.items():
        operator, _, own = name.rpartition("_")
        what = "in training" if own == "m" else f"gradient of {own}"
        found = gradients[name]
        if own in "pq":
            tied = np.isfinite(theirs[_TIED]) & np.isfinite(found[_TIED])
            theirs[_TIED][tied] = found[_TIED][tied]
        said[f"{operator}: {what}"] = differences(found, theirs)
    return {key: text for key, text in said.items() if text}
