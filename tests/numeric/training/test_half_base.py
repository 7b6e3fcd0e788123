"""Adapters over weights that the file holds in half precision, which stay so."""

from pathlib import Path

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import odtc
from odtc.core.artifact.memory_plan import Kind
from odtc.core.specs import Role
from tests.numeric.plans.frozen_costs import model_of, plan_of

VOCABULARY, WIDTH, TOKENS = 120, 48, 5
NODES = (
    "h = Gather (table, ids) k_t = Transpose <perm = [1, 0]> (k) u = MatMul (h, k_t) "
    "a = Tanh (u) d = MatMul (a, v) r = Add (h, d) t = Transpose <perm = [1, 0]> (table) "
    "y = MatMul (r, t)"
)
LORA = {"loss": "mse", "lora": odtc.LoRA(rank=2, targets="k|v"), "train": []}


def written(path: Path, dtype: str, batch: int, rounded_to: str = "float16") -> Path:
    """A small language model of weights of half precision, in a type."""
    rng = np.random.default_rng(0)
    shapes = {"table": (VOCABULARY, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH)}
    tensors = {
        name: (rng.standard_normal(shape) / WIDTH**0.5).astype(rounded_to).astype(dtype)
        for name, shape in shapes.items()
    }
    kind = {"float32": "float"}.get(dtype, dtype)
    ends = f"(int64[{batch}, {TOKENS}] ids) => ({kind}[{batch}, {TOKENS}, {VOCABULARY}] y)"
    onnx.save(model_of(ends, NODES, tensors), path)
    return path


GPUS = ("host-opencl", "host-vulkan")


@pytest.mark.parametrize(
    ("target", "half", "batch"),
    [
        *(("host-cpu", *case) for case in (("float16", 1), ("float16", 3), ("bfloat16", 3))),
        *((gpu, half, 3) for gpu in GPUS for half in ("float16", "bfloat16")),
    ],
)
def test_steps_are_those_over_the_same_weights_in_float32(
    target: str, half: str, batch: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, VOCABULARY, (batch, TOKENS))
    y = rng.standard_normal((batch, TOKENS, VOCABULARY)).astype(np.float32)
    found = []
    for dtype in (half, "float32"):
        path = written(tmp_path / f"{dtype}.onnx", dtype, batch, half)
        artifact = odtc.compile(path, target=target, **LORA)
        trainer = artifact.trainer()
        losses = [trainer.step(ids, y, lr=0.3) for _ in range(5)]
        ups = [trainer.parameters()[each.up] for each in artifact.manifest.adapters]
        # Neither onnxruntime nor ONNX's reference multiplies bfloat16.
        verify = dtype != "bfloat16"
        trainer.export_onnx(tmp_path / f"{dtype}-merged.onnx", verify=verify)
        found.append((losses, ups, trainer.evaluate(ids)))
    (losses, ups, logits), (expected_losses, expected, plain) = found
    assert losses == pytest.approx(expected_losses, rel=1e-6)
    np.testing.assert_allclose(ups, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(logits, plain, rtol=1e-5, atol=1e-6)
    merged = onnx.load(tmp_path / f"{half}-merged.onnx")
    held = {each.name: numpy_helper.to_array(each) for each in merged.graph.initializer}
    assert held["k"].dtype.name == held["table"].dtype.name == half
    table = numpy_helper.to_array(onnx.load(tmp_path / f"{half}.onnx").graph.initializer[0])
    np.testing.assert_array_equal(held["table"], table)


@pytest.mark.parametrize("target", ["host-cpu", *GPUS])
@pytest.mark.parametrize(("half", "stored"), [("float16", "float16"), ("bfloat16", "uint16")])
def test_they_take_half_of_the_bytes_and_no_more_of_the_arena(
    half: str, stored: str, target: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "m.onnx", half, 1, half)
    artifact = odtc.compile(path, target=target, **LORA)
    frozen = artifact.manifest.of_role(Role.FROZEN)
    assert {(item.spec.name, item.spec.dtype) for item in frozen} == {
        (name, stored) for name in ("table", "k", "v")
    }
    artifact.save(tmp_path / "a.odtc")
    plan, plain = (
        plan_of(each, target, **LORA) for each in (path, written(tmp_path / "p.onnx", "float32", 1))
    )
    assert len(plan.calls) <= len(plain.calls) + 1
    large = [t for t in plan.tensors if t.kind is not Kind.WORKSPACE and t.nbytes >= WIDTH**2 * 4]
    assert large == [t for t in plain.tensors if t.kind is not Kind.WORKSPACE and t in large]


def test_what_is_trained_has_float32_masters(tmp_path: Path) -> None:
    artifact = odtc.compile(written(tmp_path / "m.onnx", "float16", 1), loss="mse", train=["v"])
    dtypes = {
        item.spec.name: item.spec.dtype
        for item in artifact.manifest.of_role(Role.FROZEN, Role.PARAMETER)
    }
    assert dtypes == {"table": "float16", "k": "float16", "v": "float32"}
    assert any(
        "2 of the weights in float16 are not trained" in note for note in artifact.manifest.notes
    )
