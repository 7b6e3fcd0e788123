"""The choices of the checker of published files: rates, weights to move, how files are run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import odtc
from odtc.artifact import Artifact
from tests.published.gradient import gradient_difference, weight_moves
from tests.published.options import Options
from tests.published.steps import falls, losses_of_steps
from tests.published.values import Values, ran

_HEAD = '<ir_version: 8, opset_import: ["" : 13]>\n'


def saved(text: str, path: Path, **weights: np.ndarray) -> Path:
    model = parser.parse_model(_HEAD + text)
    model.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    )
    onnx.save(model, path)
    return path


def compiled(path: Path) -> tuple[Artifact, Values]:
    artifact = odtc.compile(path, batch=2, loss="mse")
    return artifact, Values.of(artifact.manifest, Options())


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((3.0, 2.0, 1.0), True),
        ((3.0, 2.0, 2.0), False),
        ((3.0, 2.0), False),
        ((3.0, 2.0, float("nan")), False),
        ((float("nan"), 2.0, 1.0), False),
    ],
)
def test_what_falls(losses: tuple[float, ...], expected: bool) -> None:
    assert falls(losses) is expected


@pytest.mark.parametrize("scale", [1e-4, 1.0, 10.0])
def test_a_rate_is_found_where_the_loss_bends(scale: float, tmp_path: Path) -> None:
    """Near its floor a loss has a small gradient: 2 % of it are out of reach of any step."""
    rng = np.random.default_rng(0)
    text = """g (float[N, 4] x) => (float[N, 3] y) {
        h = MatMul (x, w) s = Exp (h) y = MatMul (s, u)
    }"""
    weights = {"w": rng.standard_normal((4, 8)), "u": scale * rng.standard_normal((8, 3))}
    artifact, values = compiled(saved(text, tmp_path / "m.onnx", **weights))
    losses, rate = losses_of_steps(artifact.manifest, artifact.trainer(threads=1), values)
    assert falls(losses)
    assert 0 < rate < np.inf


def test_a_loss_that_never_falls_is_seen(tmp_path: Path) -> None:
    """Where the gradient has no part in it."""
    text = "g (float[N, 3] x) => (float[N, 3] y) { h = Mul (x, w) s = Sign (h) y = Add (s, b) }"
    path = saved(text, tmp_path / "m.onnx", w=np.ones(3), b=np.zeros(3))
    artifact = odtc.compile(path, batch=2, loss="mse", train=["w"])
    values = Values.of(artifact.manifest, Options())
    losses, _ = losses_of_steps(artifact.manifest, artifact.trainer(threads=1), values)
    assert not falls(losses)


def test_weights_that_only_rounding_moves_are_not_measured(tmp_path: Path) -> None:
    """The first weight moves the loss by a millionth of what float32 resolves of it."""
    rng = np.random.default_rng(0)
    text = """g (float[N, 4] x) => (float[N, 3] y) {
        h = MatMul (x, w) t = Mul (h, tiny) z = MatMul (x, v) a = Add (t, z) s = Mul (a, a)
        y = MatMul (s, u)
    }"""
    weights = {name: rng.standard_normal((4, 4)) for name in "wv"}
    weights |= {"u": 30 * rng.standard_normal((4, 3)), "tiny": np.array(1e-9)}
    artifact, values = compiled(saved(text, tmp_path / "m.onnx", **weights))
    assert gradient_difference(artifact, values, tmp_path) < 1e-2
    one = np.ones(4, np.float32)
    assert weight_moves(one, one, 1.0) == 0
    assert weight_moves(one, 0 * one, 8.0) == pytest.approx(0.5)


def test_a_file_that_only_sizes_make_a_model_runs_with_them(tmp_path: Path) -> None:
    """After a Squeeze without axes nothing is known of open sizes."""
    text = """g (float[N, 1, 4] x) => (float[M] y) {
        s = Squeeze (x) a = Slice (s, zero, two, zero) b = Slice (s, two, four, zero)
        y = Concat <axis = 0> (a, b)
    }"""
    path = saved(text, tmp_path / "m.onnx")
    model = onnx.load(path)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array([value]), name)
        for name, value in (("zero", 0), ("two", 2), ("four", 4))
    )
    onnx.save(model, path)
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    values = Values({"x": x}, np.zeros(4, np.float32), False, {})
    assert np.array_equal(ran(path, values, {})["y"], x.ravel())


def test_an_input_that_is_left_out_is_fed_ones(tmp_path: Path) -> None:
    text = """g (float[N, 3] x, bool[N, 2] mask) => (float[N, 3] y, bool[N, 2] m) {
        y = Neg (x) m = Not (mask)
    }"""
    path = saved(text, tmp_path / "m.onnx")
    x = np.ones((2, 3), np.float32)
    found = ran(path, Values({"x": x}, x, False, {"N": 2}), {"mask": None})
    assert found["m"].shape == (2, 2)
