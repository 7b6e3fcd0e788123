"""Adapters over a float file with rounded matrices follow PyTorch with the same matrices."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import odtc
from odtc.cli.main import main
from odtc.core.artifact.memory_plan import Kind
from odtc.core.errors import DataError, ModelError, UsageError
from odtc.core.specs import Role
from tests.fast import fast_if
from tests.numeric.plans.frozen_costs import model_of

VOCABULARY, WIDTH, TOKENS, RATE = 120, 50, 5, 0.3
# One matrix transposed, one as it lies, and a table that is the head, too.
NODES = (
    "h = Gather (table, ids) k_t = Transpose <perm = [1, 0]> (k) u = MatMul (h, k_t) "
    "a = Tanh (u) d = MatMul (a, v) r = Add (h, d) t = Transpose <perm = [1, 0]> (table) "
    "y = MatMul (r, t)"
)
LORA: Mapping[str, Any] = {"loss": "mse", "lora": "rank=2,targets=k|v"}
# The bytes of each matrix of WIDTH by WIDTH, by the format: codes, scales and zero points.
FORMATS = {
    "int4": WIDTH * (WIDTH // 2 + 2 * 5),
    "int4{block=10}": WIDTH * (WIDTH // 2 + 5 * 5),
    "int8": WIDTH * (WIDTH + 4),
    "int8{block=16}": WIDTH * (WIDTH + 4 * 4),
}


def written(path: Path, dtype: str = "float32", **changed: np.ndarray) -> Path:
    """A small language model of float weights."""
    rng = np.random.default_rng(0)
    shapes = {"table": (VOCABULARY, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH)}
    tensors = {
        name: (rng.standard_normal(shape) / WIDTH**0.5).astype(dtype)
        for name, shape in shapes.items()
    }
    kind = {"float16": "float16", "float32": "float"}[dtype]
    ends = f"(int64[2, {TOKENS}] ids) => ({kind}[2, {TOKENS}, {VOCABULARY}] y)"
    onnx.save(model_of(ends, NODES, tensors | changed), path)
    return path


def forward(ids: Tensor, dense: Mapping[str, Tensor], lora: Mapping[str, Tensor]) -> Tensor:
    """The same model, with adapters whose scale is 16 / rank."""
    h = dense["table"][ids]
    a = torch.tanh(h @ dense["k"].T + 8.0 * (h @ lora["k.down"]) @ lora["k.up"])
    return (h + a @ dense["v"] + 8.0 * (a @ lora["v.down"]) @ lora["v.up"]) @ dense["table"].T


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    ids = rng.integers(-VOCABULARY, VOCABULARY, (2, TOKENS))
    return ids, rng.standard_normal((2, TOKENS, VOCABULARY)).astype(np.float32)


def rounded(matrix: np.ndarray, axis: int, form: str) -> np.ndarray:
    """The matrix that the format stands for, block by block in float64."""
    found, size = np.array(matrix, np.float64), matrix.shape[axis]
    block = {"int4": 32, "int4{block=10}": 10, "int8": size, "int8{block=16}": 16}[form]
    lines = found if axis == 1 else found.T
    for line in lines:
        for start in range(0, size, block):
            part = line[start : start + block]
            if form.startswith("int8"):
                scale = np.float64(np.float32(np.abs(part).max() / 127))
                part[:] = np.round(part / scale) * scale
            else:
                low, high = min(part.min(), 0), max(part.max(), 0)
                scale = np.float64(np.float32((high - low) / 15))
                zero = np.round(-low / scale)
                part[:] = (np.clip(np.round(part / scale) + zero, 0, 15) - zero) * scale
    return found


GPUS = ("host-opencl", "host-vulkan")
# On GPUs one format of 4 bits, whose last block is a part of one, and one of 8.
STEPS = [*(("host-cpu", form) for form in FORMATS)] + [
    (gpu, form) for gpu in GPUS for form in ("int4", "int8{block=16}")
]


@pytest.mark.parametrize(
    "step", fast_if(lambda each: each[0] != "host-cpu" or "{" not in each[1], STEPS)
)
def test_five_steps_follow_pytorch(step: tuple[str, str], tmp_path: Path) -> None:
    target, form = step
    path = written(tmp_path / "m.onnx")
    artifact = odtc.compile(path, target=target, quantize=form, **LORA)
    trainer = artifact.trainer()
    held = trainer.parameters()
    file = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    for name, axis in (("table", 1), ("k", 1), ("v", 0)):
        expected = rounded(file[name], axis, form)
        # An element in the middle of two steps may go to either.
        near = np.isclose(held[name], expected, rtol=1e-5, atol=1e-7)
        assert near.mean() > 0.999
        (coded,) = (each for each in artifact.manifest.coded if each.weight == name)
        error = np.linalg.norm(held[name] - file[name]) / np.linalg.norm(file[name])
        assert coded.error == pytest.approx(error, rel=1e-4)
        assert error < (0.01 if form.startswith("int8") else 0.09)
    dense = {name: torch.from_numpy(held[name]) for name in ("table", "k", "v")}
    own = {
        f"{each.weight}.{which}": torch.tensor(held[tensor], requires_grad=True)
        for each in artifact.manifest.adapters
        for which, tensor in (("down", each.down), ("up", each.up))
    }
    ids, y = batch()
    optimizer = torch.optim.SGD(own.values(), lr=RATE)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(forward(torch.from_numpy(ids), dense, own), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(ids, y, lr=RATE) == pytest.approx(loss.item(), rel=1e-5)
    found = trainer.parameters()
    for each in artifact.manifest.adapters:
        for which, tensor in (("down", each.down), ("up", each.up)):
            expected = own[f"{each.weight}.{which}"].detach().numpy()
            np.testing.assert_allclose(found[tensor], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("step", fast_if(lambda each: each[1] == "int4", STEPS))
def test_codes_are_in_the_artifact_once_and_no_floats_of_them(
    step: tuple[str, str], tmp_path: Path
) -> None:
    target, form = step
    artifact = odtc.compile(written(tmp_path / "m.onnx"), target=target, quantize=form, **LORA)
    of_k = [i for i in artifact.manifest.of_role(Role.FROZEN) if i.spec.name.startswith("k")]
    assert sum(item.spec.nbytes for item in of_k) == FORMATS[form]
    large = VOCABULARY * WIDTH * 4
    kept = [t for t in artifact.memory.plan.tensors if t.kind is not Kind.WORKSPACE]
    assert all(tensor.nbytes < large for tensor in kept)
    bundle = artifact._bundle
    codes = artifact.trainer()._read(*of_k)["k"].tobytes()
    holders = {file.name for file in bundle.root.iterdir() if codes in file.read_bytes()}
    assert holders == {"parameters.safetensors"}
    floats = numpy_helper.to_array(onnx.load(tmp_path / "m.onnx").graph.initializer[1]).tobytes()
    assert all(floats not in file.read_bytes() for file in bundle.root.iterdir())


def test_what_is_exported_is_the_rounded_base_and_its_adapters(tmp_path: Path) -> None:
    artifact = odtc.compile(written(tmp_path / "m.onnx"), quantize="int8", **LORA)
    artifact.save(tmp_path / "a.odtc")
    trainer = odtc.load(tmp_path / "a.odtc").trainer(threads=1)
    ids, y = batch()
    for _ in range(3):
        trainer.step(ids, y, lr=RATE)
    before = trainer.parameters()
    trainer.export_onnx(tmp_path / "merged.onnx")  # which compares it with `evaluate`
    merged = {
        each.name: numpy_helper.to_array(each)
        for each in onnx.load(tmp_path / "merged.onnx").graph.initializer
    }
    assert merged.keys() >= {"table", "k", "v"}
    np.testing.assert_array_equal(merged["table"], before["table"])
    change = merged["v"] - before["v"]
    expected = 8.0 * before["v.lora_A.weight"] @ before["v.lora_B.weight"]
    np.testing.assert_allclose(change, expected, atol=1e-6)
    trainer.save_checkpoint(tmp_path / "c")
    again = artifact.trainer(threads=1)
    again.load_checkpoint(tmp_path / "c")
    np.testing.assert_array_equal(again.evaluate(ids), trainer.evaluate(ids))


def test_the_command_tells_the_error_of_each_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = written(tmp_path / "m.onnx"), tmp_path / "a.odtc"
    options = ["--loss", "mse", "--lora", LORA["lora"].replace("k|v", "k"), "--quantize", "int8"]
    assert main(["compile", str(path), *options, "-o", str(out), "--json"]) == 0
    said = capsys.readouterr()
    errors = {each["weight"]: each["error"] for each in json.loads(said.out)["coded"]}
    assert errors.keys() == {"table", "k", "v"}
    for name, error in errors.items():
        assert 0 < error < 0.01
        assert f"quantized: {name}, error {error:.2%}" in said.err
    assert "3 frozen matrices are quantized to int8" in said.err


def test_what_is_trained_stays_float(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx")
    artifact = odtc.compile(path, loss="mse", train=["v"], quantize="int4")
    assert {each.weight for each in artifact.manifest.coded} == {"table", "k"}
    (trained,) = artifact.manifest.of_role(Role.PARAMETER)
    assert (trained.spec.name, trained.spec.dtype) == ("v", "float32")


def test_smaller_batches_and_micro_batches_read_the_same_codes(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx")
    options = {"quantize": "int4", "micro_batches": 2, "eval_batch": 1, **LORA}
    artifact = odtc.compile(path, **options)
    whole = odtc.compile(path, quantize="int4", **LORA)
    ids, y = batch()
    split, plain = artifact.trainer(threads=1), whole.trainer(threads=1)
    for _ in range(2):
        assert split.step(ids, y, lr=RATE) == pytest.approx(plain.step(ids, y, lr=RATE), rel=1e-5)
    alone = split.evaluate(ids[:1])
    np.testing.assert_allclose(alone, plain.evaluate(ids)[:1], rtol=1e-4, atol=1e-5)


def test_weights_of_half_precision_are_rounded_too(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "float16")
    artifact = odtc.compile(path, quantize="int8", **LORA)
    assert {each.weight for each in artifact.manifest.coded} == {"table", "k", "v"}
    trainer = artifact.trainer(threads=1)
    assert np.isfinite(trainer.step(*batch(), lr=RATE))
    trainer.export_onnx(tmp_path / "merged.onnx", verify=False)
    (table, *_) = onnx.load(tmp_path / "merged.onnx").graph.initializer
    assert numpy_helper.to_array(table).dtype == np.float16


def test_a_block_of_zeros_is_zeros(tmp_path: Path) -> None:
    k = np.zeros((WIDTH, WIDTH), np.float32)
    for form in ("int4", "int8"):
        artifact = odtc.compile(written(tmp_path / "m.onnx", k=k), quantize=form, **LORA)
        assert not artifact.trainer(threads=1).parameters()["k"].any()


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="nothing to quantize"):
        odtc.plan(path, loss="mse", quantize="int8")
    with pytest.raises(UsageError, match="unknown quantization 'int5'"):
        odtc.plan(path, quantize="int5", **LORA)
    bad = np.random.default_rng(1).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    bad[3, 4] = np.inf
    damaged = written(tmp_path / "bad.onnx", k=bad)
    with pytest.raises(ModelError, match="not finite, and cannot be quantized"):
        odtc.plan(damaged, loss="mse", quantize="int8", train=["k", "v"], freeze=["k"])
    trainer = odtc.compile(path, quantize="int8", **LORA).trainer(threads=1)
    with pytest.raises(DataError, match="kept as codes, which take no other values"):
        trainer.set_parameters({"k": np.zeros((WIDTH, WIDTH), np.float32)})
