"""Small steps of the loop's tests, and data that they learn."""

from pathlib import Path

import numpy as np
import torch

import odtc

BATCH, SAMPLES, CLASSES, WIDTH = 8, 53, 3, 6


def step_of(folder: Path, loss: str, outputs: int = CLASSES, **options) -> odtc.Artifact:
    """A net of two layers with a loss, in batches of 8."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs)
    )
    path = folder / "net.onnx"
    if not path.exists():
        odtc.from_torch(net, (torch.zeros(BATCH, WIDTH),), path)
    return odtc.compile(path, batch=BATCH, loss=loss, **options)


def classed(samples: int = SAMPLES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and the classes that follow from them."""
    x = np.random.default_rng(seed).standard_normal((samples, WIDTH)).astype(np.float32)
    return x, (x[:, :CLASSES] + x[:, CLASSES:]).argmax(axis=1).astype(np.int32)


def saved(trainer: odtc.Trainer, path: Path) -> bytes:
    """The bytes of a checkpoint now."""
    trainer.save_checkpoint(path)
    return path.read_bytes()
