"""Chunks of logits beside what else cuts or narrows a step; gradients by finite differences."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import odtc
from odtc.passes.chunks.chunk_logits import ChunkLogits
from tests.numeric.training.test_chunked_logits import (
    BATCH,
    LENGTH,
    TIED,
    WIDTH,
    WORDS,
    all_logits,
    head_model,
    largest,
    logits_at_once,
    tokens,
)

LOSS = odtc.CrossEntropy(axis=2, ignore_index=-100)


def quantised(nodes: str = TIED) -> onnx.ModelProto:
    """The model whose table has 8 bits, with a scale for each row; its inner matrix is float32."""
    text = nodes.replace("table", "floats")
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        head (int64[{BATCH}, {LENGTH}] ids) => (float[{BATCH}, {LENGTH}, {WORDS}] logits)
        {{ floats = DequantizeLinear <axis = 0> (table, scale) {text} }}"""
    )
    rng = np.random.default_rng(4)
    tensors = {
        "table": rng.integers(-127, 128, (WORDS, WIDTH), np.int8),
        "scale": ((rng.random(WORDS) + 0.5) / 127).astype(np.float32),
        "inner": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 4,
    }
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in tensors.items())
    return model


Case = tuple[Callable[[], onnx.ModelProto], Mapping[str, Any], float]
CASES: Mapping[str, Case] = {
    # Of a sum: the mean over labels that are not ignored is not the mean of its parts' means. Each
    # half has to have as many tokens as are worth a cut.
    "micro-batches": (
        lambda: head_model(TIED, 2 * LENGTH, 2 * LENGTH),
        {"micro_batches": 2, "loss": odtc.CrossEntropy(axis=2, ignore_index=-100, reduction="sum")},
        2e-6,
    ),
    "mixed precision": (lambda: head_model(TIED), {"precision": "mixed"}, 2e-3),
    "a quantised head": (quantised, {"train": ["inner"]}, 2e-6),
    "adapters below a quantised head": (
        quantised,
        {"train": [], "lora": odtc.LoRA(rank=2, targets="inner")},
        2e-6,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_chunks_give_what_all_logits_at_once_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, tolerance = CASES[name]
    onnx.save(make(), tmp_path / "m.onnx")
    given = {"loss": LOSS, "optimizer": odtc.SGD(), **options}
    chunked = odtc.compile(tmp_path / "m.onnx", **given)
    monkeypatch.setattr(ChunkLogits, "run", lambda _, module: module)
    at_once = odtc.compile(tmp_path / "m.onnx", **given)
    assert largest(chunked) < largest(at_once)
    assert logits_at_once(chunked) <= logits_at_once(at_once) / 2
    times = chunked.manifest.inputs[0].shape[1] // LENGTH
    ids, labels = (np.tile(each, (1, times)) for each in tokens())
    lr = 1e-3 if name == "micro-batches" else 0.3
    losses = [
        [float(trainer.step(ids, labels, lr=lr)) for _ in range(3)]
        for trainer in (each.trainer(threads=2) for each in (chunked, at_once))
    ]
    assert losses[0][2] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=tolerance)


def exact_loss(tensors: Mapping[str, np.ndarray], ids: np.ndarray, labels: np.ndarray) -> float:
    """The loss in double precision, with adapters of the inner matrix where there are any."""
    inner = tensors["inner"]
    if "down" in tensors:
        inner = inner + 8.0 * tensors["down"] @ tensors["up"]
    logits = np.tanh(tensors["table"][ids] @ inner) @ tensors["table"].T
    logits -= logits.max(-1, keepdims=True)
    shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    kept = labels >= 0
    return -float(shares[kept, labels[kept]].mean())


def check_slopes(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], lr: float, beside: Any
) -> None:
    """Compares what a step of SGD took away with differences of the loss along random ways."""
    ids, labels = tokens()
    rng = np.random.default_rng(5)
    for name, array in before.items():
        way = rng.standard_normal(array.shape)
        way /= np.linalg.norm(way)
        found = float(np.sum((array.astype(np.float64) - after[name]) * way)) / lr
        ends = [
            exact_loss({**beside, **before, name: array + sign * 1e-4 * way}, ids, labels)
            for sign in (1, -1)
        ]
        expected = (ends[0] - ends[1]) / 2e-4
        size = float(np.linalg.norm(array.astype(np.float64) - after[name])) / lr
        assert abs(found - expected) < 1e-3 * size, name


def test_gradients_are_slopes_of_the_loss(tmp_path: Path) -> None:
    """Of a tied table, whose two gradients grow in one tensor, and of what is below the head."""
    onnx.save(head_model(TIED), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss=LOSS)
    assert largest(artifact) < all_logits() / 2
    trainer = artifact.trainer(threads=2)
    before = {name: np.array(each) for name, each in trainer.parameters().items()}
    trainer.step(*tokens(), lr=8.0)
    check_slopes(before, trainer.parameters(), 8.0, {})


def test_gradients_through_a_quantised_head_are_slopes_of_the_loss(tmp_path: Path) -> None:
    """Of adapters below it: the gradient of the data goes through its codes."""
    model = quantised()
    onnx.save(model, tmp_path / "m.onnx")
    lora = odtc.LoRA(rank=2, targets="inner")
    artifact = odtc.compile(tmp_path / "m.onnx", loss=LOSS, lora=lora, train=[])
    trainer, (adapter,) = artifact.trainer(threads=2), artifact.manifest.adapters
    trainer.step(*tokens(), lr=0.3)  # Behind it no adapter is zero.
    names = {"down": adapter.down, "up": adapter.up}
    before = {key: np.array(trainer.parameters()[name]) for key, name in names.items()}
    trainer.step(*tokens(), lr=0.3)
    after = {key: np.array(trainer.parameters()[name]) for key, name in names.items()}
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    table = held["table"].astype(np.float64) * held["scale"][:, None]
    check_slopes(before, after, 0.3, {"table": table, "inner": held["inner"].astype(np.float64)})
