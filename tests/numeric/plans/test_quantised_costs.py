"""Quantised weights stay integers: in the artifact, and from the forward pass to the backward."""

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.core.artifact.memory_plan import Kind
from odtc.core.errors import UnsupportedError
from tests.fast import fast_if
from tests.numeric.plans.frozen_costs import (
    MATRIX,
    TURNED,
    WIDTH,
    Form,
    Tensors,
    as_read,
    follows_plain,
    layers_of,
    matrices_in,
    model_of,
    plan_of,
)


def _of_integers(
    text: str, scale: tuple[int, ...], zero: bool = False, dtype: str = "int8"
) -> Form:
    """A form of a weight of few bits, with scales of a shape and zero points."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    most = 2 ** (int(dtype[-1]) - 1) - 1

    def form(name: str, rng: np.random.Generator) -> tuple[str, Tensors]:
        tensors = {
            name: rng.integers(-most, most + 1, (WIDTH, WIDTH)).astype(kind),
            f"{name}s": ((rng.random(scale) + 0.5) / most / 4).astype(np.float32),
        }
        if zero:
            tensors[f"{name}z"] = rng.integers(-3, 4, scale).astype(kind)
        return text.replace("$", name), tensors

    return form


_BLOCKS = "$_w = DequantizeLinear <axis = 0, block_size = 16> ($, $s, $z)"
QUANTISED: Mapping[str, Form] = {
    "scaled": _of_integers("$_f = Cast <to = 1> ($) $_w = Mul ($_f, $s)", (1, WIDTH)),
    "scaled, transposed": _of_integers(
        f"$_f = Cast <to = 1> ($) $_j = Mul ($_f, $s) {TURNED}", (WIDTH, 1)
    ),
    "one scale": _of_integers("$_w = DequantizeLinear ($, $s)", ()),
    "channels, transposed": _of_integers(
        f"$_j = DequantizeLinear <axis = 0> ($, $s, $z) {TURNED}", (WIDTH,), True
    ),
    "blocks": _of_integers(_BLOCKS, (WIDTH // 16, WIDTH), True),
    "blocks of 4 bits": _of_integers(_BLOCKS, (WIDTH // 16, WIDTH), True, "int4"),
}


@pytest.mark.parametrize("form", QUANTISED)
def test_no_dequantised_weight_is_in_memory(form: str, tmp_path: Path) -> None:
    """Products pack panels of it: there are as many calls as of floats."""
    path = layers_of(QUANTISED[form], tmp_path / "m.onnx")
    onnx.save(as_read(onnx.load(path)), tmp_path / "plain.onnx")
    plan, plain = (
        plan_of(each, loss="mse", train=["p"]) for each in (path, tmp_path / "plain.onnx")
    )
    assert [t for t in plan.tensors if t.nbytes >= MATRIX and t.kind is not Kind.WORKSPACE] == []
    assert len(plan.calls) == len(plain.calls)


@pytest.mark.parametrize("form", QUANTISED)
@pytest.mark.parametrize("target", ["host-opencl", "host-vulkan"])
def test_on_a_gpu_no_dequantised_weight_is_in_memory(
    target: str, form: str, tmp_path: Path
) -> None:
    path = layers_of(QUANTISED[form], tmp_path / "m.onnx")
    assert matrices_in(plan_of(path, target, loss="mse", train=["p"])) == 0


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
    artifact = odtc.compile(tmp_path / "m.onnx", loss="mse", train=["p"])
    assert artifact.memory.arena_bytes < TABLE.size // 4
    (expected,) = ReferenceEvaluator(model).run(None, {"ids": ids})
    np.testing.assert_allclose(artifact.trainer().evaluate(ids), np.asarray(expected), rtol=1e-6)


# Multiples of one number are no parameters, by rule, where they are floats.
SCALED = [form for form in QUANTISED if form != "one scale"]


@pytest.mark.parametrize("form", fast_if(lambda form: form == "channels, transposed", SCALED))
def test_adapters_beside_quantised_weights(form: str, tmp_path: Path) -> None:
    """They learn as beside the same weights in float32."""
    path, plain = layers_of(QUANTISED[form], tmp_path / "m.onnx"), tmp_path / "plain.onnx"
    onnx.save(as_read(onnx.load(path)), plain)
    x, y = np.random.default_rng(2).standard_normal((2, 8, WIDTH)).astype(np.float32)
    found = []
    for each in (path, plain):
        artifact = odtc.compile(each, loss="mse", lora=odtc.LoRA(rank=2), train=[])
        trainer = artifact.trainer(threads=1)
        losses = [trainer.step(x, y, lr=0.3) for _ in range(4)]
        found.append((losses, [trainer.parameters()[a.up] for a in artifact.manifest.adapters]))
    (losses, ups), (expected_losses, expected) = found
    assert losses == pytest.approx(expected_losses, rel=1e-6)
    assert losses[-1] < 0.99 * losses[0]
    np.testing.assert_allclose(ups, expected, rtol=1e-4, atol=1e-6)


def test_no_adapter_is_merged_into_integers(tmp_path: Path) -> None:
    path = layers_of(QUANTISED["one scale"], tmp_path / "m.onnx")
    artifact = odtc.compile(path, loss="mse", lora=odtc.LoRA(rank=2), train=["p"])
    assert artifact.manifest.adapters[0].down == "k0.lora_A.weight"
    trainer = artifact.trainer(threads=1)
    with pytest.raises(UnsupportedError, match="kept as integers"):
        trainer.export_onnx(tmp_path / "merged.onnx")
    assert not (tmp_path / "merged.onnx").exists()
    trainer.export_onnx(tmp_path / "beside.onnx", merge=False)
    with pytest.warns(UserWarning, match="in addition to them: p"):
        trainer.export_adapters(tmp_path / "adapters")
    trainer.load_adapters(tmp_path / "adapters")
