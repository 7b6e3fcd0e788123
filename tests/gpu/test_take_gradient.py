"""The gradient of reading rows by index on a GPU, in training steps, against PyTorch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from benchmarks.models.pytorch.spec import TorchModel, classes
from odtc.backends.gpu import take_gradient
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.models.parity import check_parity

# Indices of a sample: parts of the sorted ones begin and end within rows, and between them.
_LENGTH, _ROWS = 37, 50
DRAWN: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "one row": lambda _, batch: np.full((batch, _LENGTH), 3),
    "each once": lambda rng, batch: np.stack(
        [rng.permutation(_ROWS)[:_LENGTH] for _ in range(batch)]
    ),
    "whole parts": lambda _, batch: (
        np.arange(batch * _LENGTH).reshape(batch, -1) // take_gradient._PART
    ),
    "any": lambda rng, batch: rng.integers(0, 5, (batch, _LENGTH)) ** 2,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drawn", DRAWN)
def test_rows_get_the_sums_of_their_indices(
    kind: str, drawn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several pieces that an index is compared with, the last of which is smaller.
    monkeypatch.setattr(take_gradient, "_COMPARED", 40)
    model = TorchModel(
        lambda: nn.Sequential(nn.Embedding(_ROWS, 6), nn.Flatten(), nn.Linear(_LENGTH * 6, 4)),
        lambda rng, batch: {"x": DRAWN[drawn](rng, batch).astype(np.int64)},
        classes(4),
        batch=4,
        lr=0.05,
    )
    check_parity(model, "torchscript", tmp_path, f"host-{kind}")


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
@pytest.mark.parametrize(("length", "width"), [(1, 8), (1, 1), (33, 1), (40, 1), (65, 1)], ids=str)
def test_few_rows_and_columns(kind: str, length: int, width: int, tmp_path: Path) -> None:
    """A launch of one item or two, and a last part of one index."""
    model = TorchModel(
        lambda: nn.Sequential(
            nn.Embedding(_ROWS, width), nn.Flatten(), nn.Linear(length * width, 4)
        ),
        lambda rng, batch: {"x": rng.integers(0, 9, (batch, length))},
        classes(4),
        batch=1,
    )
    check_parity(model, "torchscript", tmp_path, f"host-{kind}")
