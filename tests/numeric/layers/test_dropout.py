"""Dropout: its generator, its masks in training against PyTorch, and replayed steps."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

import odtc
from odtc.core.errors import UnsupportedError, UsageError
from tests.fast import fast_if
from tests.numeric.conftest import node_model, relative_error, weight
from tests.numeric.layers.masks import mask, philox

BATCH, FEATURES, HIDDEN, CLASSES = 6, 10, 21, 5
RATIOS = (0.5, 0.2)
SEED = 0x1234_5678_9ABC


def model(opset: int = 17) -> onnx.ModelProto:
    """Two layers with dropout before and after the second one's weight."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((FEATURES, HIDDEN)),
        "w2": rng.standard_normal((HIDDEN, 8)),
        "w3": rng.standard_normal((8, CLASSES)),
    }
    tensors = {name: value.astype(np.float32) for name, value in weights.items()}
    ratios = {f"r{slot}": np.float32(ratio) for slot, ratio in enumerate(RATIOS)}

    def dropout(slot: int, x: str, y: str) -> onnx.NodeProto:
        if opset < 12:
            return helper.make_node("Dropout", [x], [y], f"drop{slot}", ratio=RATIOS[slot])
        return helper.make_node("Dropout", [x, f"r{slot}"], [y], f"drop{slot}")

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        dropout(0, "b", "c"),
        helper.make_node("MatMul", ["c", "w2"], ["d"]),
        dropout(1, "d", "e"),
        helper.make_node("MatMul", ["e", "w3"], ["y"]),
    ]
    constants = ratios if opset >= 12 else {}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, CLASSES])],
        [numpy_helper.from_array(v, k) for k, v in {**tensors, **constants}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    x = rng.standard_normal((BATCH, FEATURES)).astype(np.float32)
    return x, rng.integers(0, CLASSES, BATCH)


def reference_loss(weights: dict[str, Tensor], step: int, *, dropped: bool = True) -> Tensor:
    """The loss of a step in double precision, under the masks of numpy."""
    x, y = batch(step)
    shapes = ((BATCH, HIDDEN), (BATCH, 8))
    masks = [
        torch.tensor(mask(shape, ratio if dropped else 0.0, stream, step, SEED))
        for stream, (shape, ratio) in enumerate(zip(shapes, RATIOS, strict=True))
    ]
    hidden = torch.tanh(torch.tensor(x, dtype=torch.float64) @ weights["w1"]) * masks[0]
    logits = ((hidden @ weights["w2"]) * masks[1]) @ weights["w3"]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(y))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_the_reference_gives_the_known_answers(
    counter: list[int], key: tuple[int, int], words: str
) -> None:
    """The vectors that Random123, the paper's own library, is tested with."""
    found = philox(np.array(counter, np.uint64)[:, None], key)[:, 0]
    assert " ".join(f"{word:08x}" for word in found) == words


@pytest.mark.parametrize("opset", fast_if((17).__eq__, [9, 17]))
def test_training_under_the_masks_against_pytorch(opset: int, saved) -> None:
    """Ten steps; the backward pass sees the masks of the forward pass, or the weights part ways."""
    trainer = odtc.compile(saved(model(opset)), seed=SEED).trainer()
    weights = {k: torch.tensor(v, dtype=torch.float64) for k, v in trainer.parameters().items()}
    for value in weights.values():
        value.requires_grad_()
    optimizer = torch.optim.SGD(list(weights.values()), lr=0.1)
    for step in range(10):
        optimizer.zero_grad()
        loss = reference_loss(weights, step)
        loss.backward()
        optimizer.step()
        assert trainer.step(*batch(step), lr=0.1) == pytest.approx(loss.item(), rel=1e-4)
    for name, value in trainer.parameters().items():
        assert relative_error(value, weights[name].detach().numpy()) < 1e-5, name


def test_gradient_by_finite_differences_under_a_fixed_mask(saved) -> None:
    trainer = odtc.compile(saved(model()), seed=SEED).trainer()
    before = trainer.parameters()
    trainer.step(*batch(0), lr=1.0)
    after = trainer.parameters()
    for name, value in before.items():
        direction = np.random.default_rng(1).standard_normal(value.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = {k: torch.tensor(v.astype(np.float64)) for k, v in before.items()}
            moved[name] = torch.tensor(value + step * direction)
            ends.append(reference_loss(moved, 0).item())
        slope = (ends[0] - ends[1]) / 2e-6
        found = float(((value - after[name]) * direction).sum())
        assert found == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_evaluation_drops_nothing(saved) -> None:
    trainer = odtc.compile(saved(model())).trainer()
    weights = trainer.parameters()
    x, _ = batch(0)
    expected = np.tanh(x @ weights["w1"]) @ weights["w2"] @ weights["w3"]
    np.testing.assert_allclose(trainer.evaluate(x), expected, rtol=1e-4, atol=1e-4)


def test_without_dropout_nothing_is_dropped_and_it_says_so(saved) -> None:
    artifact = odtc.compile(saved(model()), dropout=False)
    assert artifact.manifest.notes == (
        "drop0 (Dropout): dropout is off",
        "drop1 (Dropout): dropout is off",
    )
    trainer = artifact.trainer()
    weights = {k: torch.tensor(v, dtype=torch.float64) for k, v in trainer.parameters().items()}
    expected = reference_loss(weights, 0, dropped=False).item()
    assert trainer.step(*batch(0), lr=0.1) == pytest.approx(expected, rel=1e-5)


def test_a_step_is_replayed_from_a_checkpoint(saved, tmp_path: Path) -> None:
    artifact = odtc.compile(saved(model()), seed=SEED)
    first, second = artifact.trainer(), artifact.trainer()
    for step in range(3):
        first.step(*batch(step), lr=0.1)
    first.save_checkpoint(tmp_path / "three.ckpt")
    losses = [first.step(*batch(step), lr=0.1) for step in (3, 4)]
    second.load_checkpoint(tmp_path / "three.ckpt")
    assert [second.step(*batch(step), lr=0.1) for step in (3, 4)] == losses
    for name, value in second.parameters().items():
        assert np.array_equal(value, first.parameters()[name]), name


def test_seeds_give_other_masks(saved) -> None:
    path = saved(model())
    losses = {odtc.compile(path, seed=seed).trainer().step(*batch(0), lr=0.1) for seed in (0, 1)}
    assert len(losses) == 2


def test_masks_keep_the_share_and_are_independent() -> None:
    """Over elements, streams and steps; the bounds are five standard deviations."""
    size, ratio = 1 << 16, 0.3
    kept = np.stack(
        [
            mask((size,), ratio, stream, step, SEED) > 0
            for stream, step in ((0, 0), (0, 1), (1, 0), (7, 1000))
        ]
    )
    deviation = 5 * np.sqrt(ratio * (1 - ratio) / size)
    assert np.abs(kept.mean(1) - (1 - ratio)).max() < deviation
    centred = kept - (1 - ratio)
    neighbours = [centred, np.roll(centred, 1, axis=1), np.roll(centred, size // 4, axis=1)]
    for left in neighbours:
        correlation = left @ centred.T / size
        if left is centred:
            correlation -= np.diag(np.diag(correlation))
        assert np.abs(correlation).max() < 5 * ratio * (1 - ratio) / np.sqrt(size)


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_a_seed_out_of_range_is_refused(seed: int, saved) -> None:
    with pytest.raises(UsageError, match="outside"):
        odtc.compile(saved(model()), seed=seed)


def test_a_ratio_of_one_is_refused(saved) -> None:
    with pytest.raises(UnsupportedError, match=r"the ratio 1\.0 is outside"):
        odtc.compile(saved(node_model("Dropout", (3, 4), constants={"r": np.float32(1)})))


def test_a_large_tensor_is_masked_by_many_threads(saved) -> None:
    """Sizes that threads and quarters do not divide evenly."""
    shape = (3, 40_003)
    nodes = node_model("Dropout", shape, constants={"r": np.float32(0.25)})
    trainer = odtc.compile(saved(nodes), seed=SEED).trainer(threads=2)
    weights = torch.tensor(trainer.parameters()["p"], dtype=torch.float64)
    x = weight(*shape)
    logits = (torch.tensor(x) + weights) * torch.tensor(mask(shape, 0.25, 0, 0, SEED))
    expected = torch.nn.functional.cross_entropy(logits, torch.zeros(3, dtype=torch.long))
    loss = trainer.step(x, np.zeros(3, int), lr=0.1)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
