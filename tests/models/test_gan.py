"""A DCGAN: generator and discriminator are trained against each other, as PyTorch trains them.

Three artifacts share weights: the discriminator's step, the step of the generator through the
frozen discriminator, and the generator alone, which draws the images that the first is fed.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.generative import Adversary
from benchmarks.models.pytorch.spec import TorchModel, make
from benchmarks.models.pytorch.tasks import forger
from odtc.runtime_rpc.trainer import Trainer
from tests.models.parity import BOUND, relative

NOISE, WIDTH, BATCH, ROUNDS, LR = 8, 4, 4, 3, 0.02
LOSS = "bce-with-logits"


def trainer_of(
    module: nn.Module, inputs: Mapping[str, np.ndarray], path: Path, **options
) -> Trainer:
    export(module, inputs, path)
    return odtc.compile(path, **options).trainer(threads=2)


def part(trainer: Trainer, prefix: str) -> dict[str, np.ndarray]:
    """The weights of one half of the adversary, by their names in that half."""
    found = trainer.parameters().items()
    return {name.removeprefix(prefix): v for name, v in found if name.startswith(prefix)}


def prefixed(weights: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {f"{prefix}{name}": value for name, value in weights.items()}


class TorchGan:
    """The same rounds in PyTorch."""

    def __init__(self, adversary: Adversary) -> None:
        self.adversary = adversary
        self._of = {
            half: torch.optim.SGD(getattr(adversary, half).parameters(), LR)
            for half in ("generator", "discriminator")
        }

    def images(self, noise: np.ndarray) -> np.ndarray:
        self.adversary.generator.eval()
        with torch.no_grad():
            images = self.adversary.generator(torch.from_numpy(noise)).numpy()
        self.adversary.generator.train()
        return images

    def step(self, half: str, x: np.ndarray, y: np.ndarray) -> float:
        module = self.adversary if half == "generator" else self.adversary.discriminator
        self.adversary.zero_grad()
        logits = module(torch.from_numpy(x))
        loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(y))
        loss.backward()
        self._of[half].step()
        return loss.item()


@pytest.mark.slow
def test_both_halves_learn_from_each_other(tmp_path: Path) -> None:
    task: TorchModel = forger(lambda: Adversary(NOISE, WIDTH), NOISE)
    adversary = make(task)
    adversary.requires_grad_(True)
    # Of seed 0 one value lies 3e-8 from where a leaky ReLU bends, and float32 takes either side.
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((BATCH, NOISE, 1, 1)).astype(np.float32)
    both = np.zeros((2 * BATCH, 3, 64, 64), np.float32)
    critic = trainer_of(adversary.discriminator, {"image": both}, tmp_path / "d.onnx", loss=LOSS)
    forge = trainer_of(
        adversary, {"noise": noise}, tmp_path / "g.onnx", loss=LOSS, train="generator.*"
    )
    painter = trainer_of(adversary.generator, {"noise": noise}, tmp_path / "p.onnx", loss="mse")
    # The exporter moves running statistics, each file its own: all start with the module's.
    start = {k: v.numpy() for k, v in adversary.state_dict().items() if v.is_floating_point()}
    forge.set_parameters(start)
    peer = TorchGan(adversary)
    for _ in range(ROUNDS):
        painter.set_parameters(part(forge, "generator."))
        critic.set_parameters(part(forge, "discriminator."))
        noise = rng.standard_normal((BATCH, NOISE, 1, 1)).astype(np.float32)
        images = painter.evaluate(noise)
        assert relative(images, peer.images(noise)) < BOUND
        real = rng.standard_normal(images.shape).astype(np.float32)
        x, y = np.concatenate([real, images]), np.repeat(np.float32([[1], [0]]), BATCH, 0)
        loss = critic.step(x, y, lr=LR)
        assert abs(loss - peer.step("discriminator", x, y)) < BOUND * loss
        forge.set_parameters(prefixed(critic.parameters(), "discriminator."))
        loss = forge.step(noise, np.ones((BATCH, 1), np.float32), lr=LR)
        assert abs(loss - peer.step("generator", noise, np.ones((BATCH, 1), np.float32))) < BOUND
    found, expected = forge.parameters(), peer.adversary.state_dict()
    for name, value in found.items():
        assert relative(value, expected[name].numpy()) < BOUND, name
