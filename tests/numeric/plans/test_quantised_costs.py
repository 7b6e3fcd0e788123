"""Quantised weights stay integers: in the artifact, and from the forward pass to the backward."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import odtc
from tests.fast import fast_if
from tests.numeric.plans.frozen_costs import (
    LAYERS,
    TURNED,
    WIDTH,
    Form,
    Tensors,
    follows_plain,
    layers_of,
    matrices_in,
    model_of,
    plan_of,
)


def _of_integers(text: str, scale: tuple[int, ...], zero: bool = False) -> Form:
    """A form of a weight of 8 bits, with scales of a shape and zero points."""

    def form(name: str, rng: np.random.Generator) -> tuple[str, Tensors]:
        tensors = {
            name: rng.integers(-127, 128, (WIDTH, WIDTH), np.int8),
            f"{name}s": (rng.random(scale) / 500 + 1e-3).astype(np.float32),
        }
        if zero:
            tensors[f"{name}z"] = rng.integers(-3, 4, scale, np.int8)
        return text.replace("$", name), tensors

    return form


QUANTISED: Mapping[str, Form] = {
    "scaled": _of_integers("$_f = Cast <to = 1> ($) $_w = Mul ($_f, $s)", (1, WIDTH)),
    "one scale": _of_integers("$_w = DequantizeLinear ($, $s)", ()),
    "channels, transposed": _of_integers(
        f"$_j = DequantizeLinear <axis = 0> ($, $s, $z) {TURNED}", (WIDTH,), True
    ),
    "blocks": _of_integers(
        "$_w = DequantizeLinear <axis = 0, block_size = 16> ($, $s, $z)", (WIDTH // 16, WIDTH), True
    ),
}


@pytest.mark.parametrize("form", QUANTISED)
def test_no_dequantised_weight_waits_for_the_backward_pass(form: str, tmp_path: Path) -> None:
    plan = plan_of(layers_of(QUANTISED[form], tmp_path / "m.onnx"), loss="mse", params=["p"])
    assert matrices_in(plan) == 2 * LAYERS


@pytest.mark.parametrize("form", fast_if(lambda form: form == "blocks", QUANTISED))
def test_losses_and_gradients_behind_quantised_weights(form: str, tmp_path: Path) -> None:
    follows_plain(layers_of(QUANTISED[form], tmp_path / "m.onnx"))


TABLE = np.random.default_rng(0).integers(-127, 128, (512, 16), np.int8)
# How the rows of a table of 8 bits get their scales.
TABLES: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "one scale": ("d = DequantizeLinear (q, s)", ()),
    "rows": ("d = DequantizeLinear <axis = 0> (q, s)", (512,)),
    "spelled out": ("f = Cast <to = 1> (q) d = Mul (f, s)", (512, 1)),
    "blocks": ("d = DequantizeLinear <axis = 1, block_size = 4> (q, s)", (512, 4)),
}


@pytest.mark.parametrize("form", TABLES)
def test_of_a_quantised_table_the_rows_that_are_read_are_dequantised(
    form: str, tmp_path: Path
) -> None:
    nodes, shape = TABLES[form]
    scale = np.random.default_rng(1).random(shape).astype(np.float32)
    tensors = {"q": TABLE, "s": np.asarray(scale), "p": np.ones(16, np.float32)}
    ends, nodes = "(int64[2, 3] ids) => (float[2, 3, 16] y)", f"{nodes} e = Gather (d, ids)"
    model = model_of(ends, f"{nodes} y = Mul (e, p)", tensors)
    onnx.save(model, tmp_path / "m.onnx")
    ids = np.random.default_rng(2).integers(-512, 512, (2, 3))
    artifact = odtc.compile(tmp_path / "m.onnx", loss="mse", params=["p"])
    assert artifact.memory.arena_bytes < TABLE.size // 4
    (expected,) = ReferenceEvaluator(model).run(None, {"ids": ids})
    np.testing.assert_allclose(artifact.trainer().evaluate(ids), np.asarray(expected), rtol=1e-6)
