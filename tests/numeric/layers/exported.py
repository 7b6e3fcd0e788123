"""PyTorch modules, their exports, and steps of both sides on the same batches."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.func import functional_call

import odtc

BATCH, CLASSES = 4, 5
LR, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 0.01
OPTIMIZER = odtc.SGD(momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
STEPS = 3


class ConvNet(nn.Module):
    """Plain, grouped, depthwise and pointwise convolutions, two norms, and two linear layers."""

    shape = (3, 8, 8)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        # As large as the variances: who leaves it out is seen.
        self.norm1 = nn.BatchNorm2d(8, eps=0.5)
        self.grouped = nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=2)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.norm2 = nn.BatchNorm2d(12)
        self.pointwise = nn.Conv2d(12, 16, 1)
        self.fc = nn.Linear(16, 10)
        self.head = nn.Linear(10, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.stem(x)))
        x = torch.tanh(self.grouped(x))
        x = torch.relu(self.norm2(self.depthwise(x)))
        x = torch.sigmoid(self.pointwise(x)).mean((2, 3))
        return self.head(torch.tanh(self.fc(x)))


class Tokens(nn.Module):
    """A 1-D convolution, and linear layers over rank 3: MatMul and Add, no Gemm."""

    shape = (6, 10)

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv1d(6, 6, 3, padding=1)
        self.query = nn.Linear(10, 12)
        self.value = nn.Linear(12, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.query(self.mix(x)))
        return self.head(torch.tanh(self.value(x)).mean(1))


class Bert(nn.Module):
    """One block of a transformer, as BERT has it, over token numbers."""

    shape = (6,)
    words = 20

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(self.words, 8)
        self.position = nn.Parameter(torch.randn(1, 6, 8))
        self.query, self.key, self.value, self.dense = (nn.Linear(8, 8) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.position
        query, key, value = (
            layer(x).reshape(-1, 6, 2, 4).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(2, 3) / 2, -1)
        mixed = (weights @ value).transpose(1, 2).reshape(-1, 6, 8)
        x = self.norm1(x + self.dense(mixed))
        x = self.norm2(x + self.down(nn.functional.gelu(self.up(x))))
        return self.head(x[:, 0])


def draw_input(module: nn.Module, rng: np.random.Generator) -> np.ndarray:
    """A batch of what the module takes."""
    shape = (BATCH, *module.shape)  # type: ignore[misc]
    if isinstance(module, Bert):
        return rng.integers(0, module.words, shape)
    return rng.standard_normal(shape).astype(np.float32)


def exported(make: type[nn.Module], path: Path) -> nn.Module:
    """A module whose export is at the path; both have the same weights."""
    torch.manual_seed(0)
    module = make().train()
    example = torch.tensor(draw_input(module, np.random.default_rng(0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            *(module, (example,), path),
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=["x"],
        )
    _to_inference(path)
    # The export in training mode runs the module, which moves the running statistics.
    return module


def _to_inference(path: Path) -> None:
    """Puts batch normalisations in inference mode, where the exporter would fold them away."""
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            kept = [item for item in node.attribute if item.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
    onnx.save(model, path)


def batches(module: nn.Module) -> list[tuple[np.ndarray, np.ndarray]]:
    """The inputs and labels of a few steps."""
    rng = np.random.default_rng(1)
    return [(draw_input(module, rng), rng.integers(0, CLASSES, BATCH)) for _ in range(STEPS)]


Assemble = Callable[[], Mapping[str, torch.Tensor]]


def follow(
    trainer: odtc.Trainer,
    module: nn.Module,
    trained: list[torch.Tensor],
    assemble: Assemble = lambda: {},
) -> None:
    """Takes steps with both sides, and compares their losses.

    Args:
        trainer: of a step compiled with `OPTIMIZER`.
        module: what it was exported from.
        trained: the leaves that PyTorch is to train.
        assemble: the module's parameters that are computed from them.
    """
    optimizer = torch.optim.SGD(trained, LR, MOMENTUM, weight_decay=WEIGHT_DECAY)
    for x, y in batches(module):
        optimizer.zero_grad()
        logits = functional_call(module, dict(assemble()), (torch.tensor(x),))
        loss = nn.functional.cross_entropy(logits, torch.tensor(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, y, lr=LR) == pytest.approx(loss.item(), rel=1e-4)
