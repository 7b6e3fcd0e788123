"""Scales and shifts after a batch normalisation are its own; each trains as before."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from odtc.core.ir.relax_calls import operator_of
from odtc.frontend.importer import FORWARD
from odtc.frontend.patterns.join_scales import join_scales
from tests.numeric.conftest import relative_error, text_model

SHAPE = (4, 3, 5, 6)
NORMAL = "n = BatchNormalization <momentum = 0.8> (h, gamma, beta, mean, variance) "
# What follows the normalisation, and the shapes of what it reads.
JOINED = {
    "caffe": ("m = Mul (n, s) a = Add (m, t) y = Relu (a)", {"s": (3, 1, 1), "t": (3, 1, 1)}),
    "scale": ("y = Mul (s, n)", {"s": (1, 3, 1, 1)}),
    "shift": ("y = Add (t, n)", {"t": (1, 3, 1, 1)}),
    "twice": (
        "m = Mul (n, s) a = Add (t, m) b = Mul (a, u) y = Add (b, s)",
        {"s": (3, 1, 1), "t": (1, 1, 1), "u": (1, 3, 1, 1)},
    ),
    "computed": ("e = Exp (s) y = Mul (n, e)", {"s": (3, 1, 1)}),
}
ALONE = {
    "per-column": ("y = Mul (n, s)", {"s": (6,)}),
    "per-element": ("y = Mul (n, s)", {"s": (1, 3, 5, 6)}),
    "read-twice": ("m = Mul (n, s) y = Sub (m, n)", {"s": (3, 1, 1)}),
    "by-another-operator": ("m = Tanh (n) y = Mul (m, s)", {"s": (3, 1, 1)}),
}


def model_of(nodes: str, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {name: rng.uniform(0.5, 2, shape) for name, shape in shapes.items()}
    for name in ("gamma", "beta", "mean", "variance"):
        weights[name] = rng.uniform(0.5, 2, 3)
    parameters = {name: value.astype(np.float32) for name, value in weights.items()}
    return text_model(NORMAL + nodes, SHAPE, parameters=parameters)


@pytest.mark.parametrize("kind", [*JOINED, *ALONE])
def test_trains_as_before(kind: str, tmp_path: Path) -> None:
    """Losses, statistics and every parameter, against PyTorch in double precision."""
    model = model_of(*(JOINED | ALONE)[kind])
    onnx.save(model, tmp_path / "m.onnx")
    trainer = odtc.compile(tmp_path / "m.onnx").trainer()
    reference = TorchTrainer(model, lr=0.1, dtype=torch.float64)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = rng.standard_normal(SHAPE).astype(np.float32)
        y = rng.integers(0, 90, SHAPE[0])
        assert trainer.step(x, y, lr=0.1) == pytest.approx(reference.step(x, y), rel=1e-4)
    expected = reference.parameters()
    for name, value in trainer.parameters().items():
        assert relative_error(value, expected[name]) < 1e-4, name


def operators(function: relax.Function) -> list[str]:
    (block,) = function.body.blocks
    return [operator_of(b.value) for b in block.bindings]


def forward(kind: str) -> list[str]:
    """Operators after the pass, on a normalisation and what follows."""
    shapes = {"joined": (3, 1, 1), "column": (6,), "wide": (2, 4, 3, 5, 6)}
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    rest = [relax.Var(f"p{i}", relax.TensorType((3,), "float32")) for i in range(4)]
    s = relax.Var("s", relax.TensorType(shapes.get(kind, (3, 1, 1)), "float32"))
    with builder.function(FORWARD, [x, *rest, s]):
        with builder.dataflow():
            found = builder.emit(R.nn.batch_norm(x, *rest, axis=1, training=False))
            normal = builder.emit(relax.TupleGetItem(found, 0))
            result = builder.emit(R.multiply(normal, s))
            results = [builder.emit_output(result)]
            if kind == "read-as-result":
                results.append(builder.emit_output(normal))
        builder.emit_func_output(relax.Tuple(results))
    return operators(join_scales(builder.finalize(), FORWARD)[FORWARD])


@pytest.mark.parametrize("kind", ["joined", "column", "wide", "read-as-result"])
def test_only_numbers_of_channels_are_joined(kind: str) -> None:
    found = forward(kind)
    assert found.count("relax.nn.batch_norm") == 1
    # What multiplies numbers of channels comes before the normalisation.
    products = [place for place, name in enumerate(found) if name == "relax.multiply"]
    is_before = all(place < found.index("relax.nn.batch_norm") for place in products)
    assert is_before == (kind == "joined")


def test_the_normalised_tensor_is_not_saved(tmp_path: Path) -> None:
    """Five layers as Caffe has them: what is kept of each is what is normalised and rectified."""
    rng = np.random.default_rng(0)
    nodes, parameters, data = "", {}, "h"
    for layer in range(5):
        names = [f"{kind}{layer}" for kind in ("gamma", "beta", "mean", "variance")]
        parameters |= {name: rng.uniform(0.5, 2, 8) for name in names}
        parameters |= {f"{kind}{layer}": rng.uniform(0.5, 2, (8, 1, 1)) for kind in "st"}
        parameters[f"w{layer}"] = rng.standard_normal((8, 8, 1, 1)) / 8
        nodes += (
            f"c{layer} = Conv ({data}, w{layer}) "
            f"n{layer} = BatchNormalization (c{layer}, {', '.join(names)}) "
            f"m{layer} = Mul (n{layer}, s{layer}) a{layer} = Add (m{layer}, t{layer}) "
            f"r{layer} = Relu (a{layer}) "
        )
        data = f"r{layer}"
    nodes += f"y = GlobalAveragePool ({data})"
    weights = {name: value.astype(np.float32) for name, value in parameters.items()}
    onnx.save(text_model(nodes, (4, 8, 32, 32), parameters=weights), tmp_path / "m.onnx")
    image = 4 * 8 * 32 * 32 * 4
    planned = odtc.compile(tmp_path / "m.onnx").manifest.sizes.train_step
    # Two a layer, the first layer's input, and what the last layer's gradient takes.
    assert planned < 15 * image
