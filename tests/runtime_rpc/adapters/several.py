"""A net whose adapters differ in all that steps may change."""

from typing import Any

import numpy as np
import torch
from torch import nn

import odtc

LR = 1e-2


class Net(nn.Module):
    """Layers with all that adapters may differ in: dropout by the step's number, statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.first(x)))))


BATCH, TARGET = 8, "host-cpu{threads=1}"
LORA: dict[str, Any] = {"lora": "rank=2,targets=*first*", "train": "head*"}


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((BATCH, 8), np.float32), rng.integers(0, 4, BATCH)


def kept(trainer: odtc.Trainer) -> dict[str, bytes]:
    """All that a trainer has, base and state."""
    found = {f"weight {k}": v.tobytes() for k, v in trainer.parameters().items()}
    return found | {f"kept {k}": v.tobytes() for k, v in trainer._kept()}
