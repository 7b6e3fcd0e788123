"""Kernels whose expressions would be too large are cut, and compute what they did."""

import math
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from tvm import tirx

import odtc
from odtc.backends.vector_math import grown_functions
from odtc.passes.ir.written_out import Growth, growth_of, size_of
from odtc.passes.kernel import split_fused
from tests.fuzz.corpus import CORPUS, model, node, value

F32 = np.float32
WIDTH = 8
RNG = np.random.default_rng(0)
V = (RNG.standard_normal((WIDTH, WIDTH)) * 0.4).astype(F32)
W = (RNG.standard_normal((WIDTH, 3)) * 0.4).astype(F32)


def chain(length: int) -> onnx.ModelProto:
    """So many times tanh between two products."""
    nodes = [
        node("MatMul", "x v", "h0"),
        *(node("Tanh", f"h{at}", f"h{at + 1}") for at in range(length)),
        node("MatMul", f"h{length} w", "y"),
    ]
    return model(nodes, [value("x", ["N", 1, WIDTH])], {"v": V, "w": W}, output=[OUTPUT])


def recurrence(steps: int) -> onnx.ModelProto:
    """h = tanh(x v + h), as many times as there are steps."""
    nodes = [node("MatMul", "x v", "p"), node("Split", "p", " ".join(names(steps)), axis=1)]
    nodes.append(node("Tanh", "p0", "h0"))
    for at in range(1, steps):
        nodes += [node("Add", f"p{at} h{at - 1}", f"s{at}"), node("Tanh", f"s{at}", f"h{at}")]
    nodes.append(node("MatMul", f"h{steps - 1} w", "y"))
    weights = {"v": V, "w": W}
    return model(nodes, [value("x", ["N", steps, WIDTH])], weights, opset=13, output=[OUTPUT])


OUTPUT = value("y", ["N", 1, 3])


def names(steps: int) -> list[str]:
    return [f"p{at}" for at in range(steps)]


def after_chain(x: np.ndarray, v: np.ndarray, length: int) -> np.ndarray:
    h = x @ v
    for _ in range(length):
        h = np.tanh(h)
    return h @ W


def after_recurrence(x: np.ndarray, v: np.ndarray, _: int) -> np.ndarray:
    h = np.zeros((len(x), WIDTH), F32)
    for p in np.moveaxis(x @ v, 1, 0):
        h = np.tanh(p + h)
    return h[:, None] @ W


def check(made: onnx.ModelProto, expected, size: int, folder) -> None:
    """Evaluates and trains as NumPy and finite differences say."""
    onnx.save(made, folder / "m.onnx")
    trainer = odtc.compile(folder / "m.onnx", batch=4, loss="mse").trainer(threads=1)
    steps = made.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    x = RNG.standard_normal((4, steps, WIDTH)).astype(F32)
    np.testing.assert_allclose(trainer.evaluate(x), expected(x, V, size), atol=1e-5)
    target = np.zeros((4, 1, 3), F32)
    before = trainer.parameters()["v"].astype(np.float64)
    trainer.step(x, target, lr=1.0)
    gradient = before - trainer.parameters()["v"]
    direction = RNG.standard_normal(V.shape)
    x64 = x.astype(np.float64)

    def loss(at: float) -> float:
        return float(np.mean(expected(x64, V + at * direction, size) ** 2))

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert math.isclose(np.sum(gradient * direction), slope, rel_tol=1e-3, abs_tol=1e-6)


@pytest.mark.parametrize("size", [9, pytest.param(64, marks=pytest.mark.slow)])
def test_a_recurrence_of_elements(size: int, tmp_path) -> None:
    """Three steps were more than anybody waited for."""
    started = time.process_time()
    check(recurrence(size), after_recurrence, size, tmp_path)
    assert time.process_time() - started < 120


@pytest.mark.parametrize("size", [9, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_long_chain(size: int, tmp_path) -> None:
    started = time.process_time()
    check(chain(size), after_chain, size, tmp_path)
    assert time.process_time() - started < 120


@pytest.mark.parametrize("family", ["convolutions", "inception", "activations", "selection"])
def test_parts_compute_what_the_whole_did(family: str, tmp_path, monkeypatch) -> None:
    """Kernels are cut that would not have to be, products and one of several results among them."""
    onnx.save(CORPUS[family](), tmp_path / "m.onnx")
    whole = trained(tmp_path / "m.onnx")
    called = Mock(side_effect=split_fused._called)
    monkeypatch.setattr(split_fused, "_called", called)
    monkeypatch.setattr(split_fused, "LARGEST", 6)
    parts = trained(tmp_path / "m.onnx")
    assert called.called
    for found, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def trained(path: Path) -> tuple[list[float], np.ndarray]:
    """Losses of three steps, and what is evaluated then."""
    artifact = odtc.compile(path, batch=2)
    trainer = artifact.trainer(threads=1)
    (spec,) = artifact.manifest.inputs
    x = np.random.default_rng(1).standard_normal(spec.shape).astype(F32)
    return [trainer.step(x, np.array([0, 1]), lr=0.1) for _ in range(3)], trainer.evaluate(x)


def test_what_an_expression_becomes() -> None:
    x, y = tirx.Var("x", "float32"), tirx.Var("y", "float32")
    square = x * x
    assert size_of(square + y, {}, {}) == 5
    assert size_of(square + y, {x: 10}, {}) == 23
    assert size_of(tirx.Let(y, square, y + y), {}, {}) == 7
    assert size_of(tirx.exp(square), {}, {"tirx.exp": Growth(100, 5)}) == 115
    assert growth_of(square + 1.0, x) == Growth(3, 2)


def test_a_function_in_a_function_multiplies() -> None:
    grown = grown_functions()
    x = tirx.Var("x", "float32")
    sizes = {}
    for name in ("tanh", "sinh", "exp", "log"):
        function, growth = getattr(tirx, name), grown[f"tirx.{name}"]
        once, twice = (size_of(each, {}, grown) for each in (function(x), function(function(x))))
        assert twice == growth.size + growth.copies * once
        sizes[name] = once, twice
    once, twice = sizes["sinh"]
    assert twice > 100 * once
    # Those that networks are made of stay one kernel.
    _, twice = sizes["tanh"]
    mish = x * tirx.tanh(tirx.log(1.0 + tirx.exp(x)))
    assert twice < size_of(mish, {}, grown) < split_fused.LARGEST
