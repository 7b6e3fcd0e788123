"""Sparse updates: a block of a weight's channels learns as in PyTorch, the rest stays as it is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

import odtc
from odtc.core.specs import Block
from tests.numeric.conftest import relative_error
from tests.numeric.layers.exported import LR, OPTIMIZER, ConvNet, Tokens, batches, exported, follow


class Part:
    """A weight of PyTorch's of which one block is a leaf that learns."""

    def __init__(self, value: torch.Tensor, block: Block) -> None:
        self.axis = block.axis
        rest = value.shape[block.axis] - block.start - block.size
        self.pieces = list(value.split([block.start, block.size, rest], block.axis))
        self.pieces[1] = self.leaf = self.pieces[1].clone().requires_grad_()

    def whole(self) -> torch.Tensor:
        return torch.cat(self.pieces, self.axis)


def changed_channels(before: np.ndarray, after: np.ndarray, axis: int) -> list[int]:
    others = tuple(i for i in range(before.ndim) if i != axis)
    return np.flatnonzero((before != after).any(axis=others)).tolist()


@pytest.mark.parametrize("make", [ConvNet, Tokens])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_blocks_learn_as_in_pytorch(make: type[nn.Module], share: float, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    module = exported(make, path)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    choices = [f"sparse{{channels={share}}}", "head.*"]
    artifact = odtc.compile(path, train=choices, optimizer=OPTIMIZER)
    blocks = {a.spec.name: a.block for a in artifact.manifest.arguments if a.block}
    layers = {
        n for n, m in module.named_modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)
    }
    assert blocks.keys() == {f"{name}.weight" for name in layers}
    state = sum(block.size * before[n][0].numel() for n, block in blocks.items() if not block.axis)
    assert artifact.manifest.sizes.optimizer == 4 * (state + len(before["head.bias"]))

    parts = {name: Part(before[name], block) for name, block in blocks.items()}
    leaves = [module.get_parameter("head.bias"), *(part.leaf for part in parts.values())]
    trainer = artifact.trainer()
    follow(trainer, module, leaves, lambda: {name: part.whole() for name, part in parts.items()})
    found = trainer.parameters()
    for name, block in blocks.items():
        assert block.size == pytest.approx(share * before[name].shape[block.axis], abs=1)
        assert relative_error(found[name], parts[name].whole().detach().numpy()) < 1e-4, name
        channels = list(range(block.start, block.start + block.size))
        assert changed_channels(before[name].numpy(), found[name], block.axis) == channels, name
    for name in before.keys() - blocks.keys() - {"head.bias"}:
        assert np.array_equal(found[name], before[name].numpy()), name


def test_what_is_around_the_optimizer_works_on_blocks(tmp_path: Path) -> None:
    """The same weights as if the rest were masked: RMSProp, micro-batches, clipping, averages."""
    path = tmp_path / "model.onnx"
    module = exported(Tokens, path)
    update = odtc.Update(odtc.RMSProp(), clip_norm=0.1, accumulate=2, ema=0.5)
    artifact = odtc.compile(path, train="sparse{channels=0.5}", optimizer=update)
    trainer = artifact.trainer()
    blocks = {a.spec.name: a.block for a in artifact.manifest.arguments if a.block}
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    parts = {name: Part(before[name], block) for name, block in blocks.items()}
    leaves = [part.leaf for part in parts.values()]
    optimizer = torch.optim.RMSprop(leaves, LR)
    averages = {name: part.whole().detach() for name, part in parts.items()}
    for index, (x, y) in enumerate([*batches(module), *batches(module)]):
        weights = {name: part.whole() for name, part in parts.items()}
        logits = functional_call(module, weights, (torch.tensor(x),))
        (nn.functional.cross_entropy(logits, torch.tensor(y)) / 2).backward()
        trainer.step(x, y, lr=LR)
        if index % 2:
            nn.utils.clip_grad_norm_(leaves, 0.1)
            optimizer.step()
            optimizer.zero_grad()
            for name, part in parts.items():
                averages[name] = averages[name].lerp(part.whole().detach(), 0.5)
    found, averaged = trainer.parameters(), trainer.parameters(ema=True)
    for name, part in parts.items():
        assert relative_error(found[name], part.whole().detach().numpy()) < 1e-4, name
        assert relative_error(averaged[name], averages[name].numpy()) < 1e-4, name
