"""Dynamic loss scaling against `torch.amp.GradScaler`, with overflows forced."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import NumericError
from odtc.core.specs import Role
from tests.numeric.mlp import TorchMlp, assert_same, batches, mlp_artifact, mlp_trainer

LR = 0.05
# A feature that is large in some batches and zero in the others: the scale must sink for it.
LARGE_FEATURE, LARGE_BATCHES = 100.0, range(3, 12)


def state(trainer, name: str) -> float:
    (item,) = (
        item for item in trainer._manifest.of_role(Role.STATE) if item.spec.name == f"update/{name}"
    )
    return float(trainer._engine.read([item])[item])


class TorchScaled:
    """Adam with GradScaler, in float32 as far as the scaled gradients go."""

    def __init__(self, scale: float, interval: int, clip: float | None) -> None:
        self.net = TorchMlp()
        self.net.weights = {
            name: value.detach().float().requires_grad_()
            for name, value in self.net.weights.items()
        }
        self.optimizer = torch.optim.Adam(self.net.weights.values(), lr=LR, eps=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", scale, growth_interval=interval)
        self.clip = clip

    def step(self, x: np.ndarray, y: np.ndarray) -> None:
        w1, b1, w2, b2 = self.net.weights.values()
        hidden = torch.sigmoid(torch.nn.functional.linear(torch.from_numpy(x), w1, b1))
        logits = torch.nn.functional.linear(hidden, w2, b2)
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y))
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.net.weights.values(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()


@pytest.mark.parametrize("clip", [None, 0.2])
def test_against_grad_scaler(clip: float | None, tmp_path: Path) -> None:
    interval, scale = 3, 2.0**127
    update = odtc.Update(
        odtc.Adam(eps=1e-3),
        clip_norm=clip,
        loss_scale=odtc.LossScale(initial=scale, interval=interval),
    )
    trainer = mlp_trainer(tmp_path, update)
    peer = TorchScaled(scale, interval, clip)
    left_out = 0
    blind = trainer.parameters()["fc1.weight"]
    blind[:, 0] = 0.0
    trainer.set_parameters({"fc1.weight": blind})
    peer.net.weights["fc1.weight"].data[:, 0] = 0.0
    for index, (x, y) in enumerate(batches(20)):
        x[:, 0] = LARGE_FEATURE if index in LARGE_BATCHES else 0.0
        before = trainer.parameters()
        assert math.isfinite(trainer.step(x, y, lr=LR))
        peer.step(x, y)
        same = all(np.array_equal(before[k], v) for k, v in trainer.parameters().items())
        left_out += same
        assert state(trainer, "loss-scale") == peer.scaler.get_scale()
        assert state(trainer, "good") == peer.scaler._get_growth_tracker()
    assert 2 <= left_out < 15
    assert state(trainer, "count") == 20 - left_out
    assert_same(trainer.parameters(), peer.net.weights, 1e-4)


def test_the_scale_takes_no_part_in_the_numbers(tmp_path: Path) -> None:
    """It is a power of two: unscaled gradients are the same to the last bit."""
    adam = odtc.AdamW(weight_decay=0.1)
    scaled = mlp_trainer(tmp_path, odtc.Update(adam, loss_scale="dynamic"))
    plain = mlp_trainer(tmp_path, adam)
    for x, y in batches(5):
        assert scaled.step(x, y, lr=LR) == plain.step(x, y, lr=LR)
    expected = plain.parameters()
    for name, value in scaled.parameters().items():
        np.testing.assert_array_equal(value, expected[name])


def test_an_overflow_empties_the_accumulator(tmp_path: Path) -> None:
    update = odtc.Update(
        odtc.SGD(momentum=0.9), accumulate=2, ema=0.9, loss_scale=odtc.LossScale(2.0**127)
    )
    artifact = mlp_artifact(tmp_path, update)
    trainer, start = artifact.trainer(threads=1), artifact.trainer(threads=1).parameters()
    data = batches(12)
    updates = []
    for x, y in data:
        trainer.step(100 * x, y, lr=LR)
        updates.append(state(trainer, "count"))
    left_out = sum(1 for i in range(1, 12, 2) if updates[i] == updates[i - 1])
    assert 1 <= left_out < 6
    assert updates[-1] == 6 - left_out
    assert trainer.updates == 6
    moved = trainer.parameters()
    assert all(np.isfinite(value).all() for value in moved.values())
    assert not any(np.array_equal(start[name], value) for name, value in moved.items())


def test_a_loss_that_stays_infinite_is_an_error_in_the_end(tmp_path: Path) -> None:
    update = odtc.Update(odtc.SGD(), loss_scale=odtc.LossScale(initial=2.0**-10))
    trainer = mlp_trainer(tmp_path, update)
    before = trainer.parameters()
    x, y = batches(1)[0]
    x = np.full_like(x, np.nan)
    for _ in range(4):
        assert math.isnan(trainer.step(x, y, lr=LR))
    with pytest.raises(NumericError, match="64 of 64 elements of 'x' are nan at step 5"):
        trainer.step(x, y, lr=LR)
    after = trainer.parameters()
    assert all(np.array_equal(after[name], value) for name, value in before.items())


def test_with_activations_stored_as_float16(tmp_path: Path) -> None:
    update = odtc.Update(odtc.SGD(momentum=0.9), clip_norm=0.5, accumulate=2, loss_scale="dynamic")
    mixed = mlp_trainer(tmp_path, update, precision="mixed")
    whole = mlp_trainer(tmp_path, update)
    for x, y in batches(10):
        assert mixed.step(x, y, lr=LR) == pytest.approx(whole.step(x, y, lr=LR), rel=1e-3)
    assert state(mixed, "count") == state(whole, "count") == 5
    expected = whole.parameters()
    for name, value in mixed.parameters().items():
        np.testing.assert_allclose(value, expected[name], atol=1e-3, err_msg=name)
