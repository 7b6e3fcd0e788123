"""A sample with a NaN in a network whose rectifiers became parts of other kernels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from odtc.core.errors import NumericError
from tests.fast import fast_if

BATCH, CLASSES, SIZE = 4, 5, 16


class Rectified(nn.Module):
    """After normalisations, in front of a pooling, after products, in a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6()),
            *(nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 16, 1), nn.ReLU(), nn.MaxPool2d(2)),
        )
        self.rows = nn.RNN(64, 12, nonlinearity="relu", batch_first=True)
        self.head = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.features(x)
        rows, _ = self.rows(image.transpose(1, 2).flatten(2))
        return self.head(rows.flatten(1))


# How a step can be made of other kernels.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mixed": {"precision": "mixed"},
    "cheapest layouts": {"layout": "cheapest"},
    "frozen": {"freeze_batch_norm": True, "train": "head.*"},
    "opencl": {"target": "host-opencl"},
    "vulkan": {"target": "host-vulkan"},
    "opencl mixed": {"target": "host-opencl", "precision": "mixed"},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    odtc.from_torch(Rectified().train(), torch.randn(2, 3, SIZE, SIZE), path)
    return path


@pytest.fixture
def trainer(exported: Path) -> Callable[[str], odtc.Trainer]:
    return lambda way: odtc.compile(exported, batch=BATCH, **WAYS[way]).trainer()


@pytest.mark.parametrize("way", fast_if(lambda way: way == "plain", WAYS))
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_loss_says_it(way: str, value: float, trainer: Callable[[str], odtc.Trainer]) -> None:
    """The loss is no number, nor is what is evaluated of the sample; that of the others is."""
    made = trainer(way)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)
    y = np.arange(BATCH)
    assert np.isfinite(made.evaluate(x)).all()
    x[1, 0, 0, 0] = value
    assert np.array_equal(np.isfinite(made.evaluate(x)).all(1), [True, False, True, True])
    with pytest.raises(NumericError, match=r"loss (is )?(nan|inf)"):
        made.step(x, y, lr=0.01)
