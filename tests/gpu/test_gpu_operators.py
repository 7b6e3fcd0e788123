"""Operators with kernels of their own on a GPU, in training steps, against PyTorch."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from benchmarks.models.pytorch.spec import TorchModel, classes, signals
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.models.parity import check_parity


class Pooled(nn.Module):
    """A pooling between convolutions, so that its gradient is needed."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.first, self.pool = nn.Conv2d(2, 5, 3, padding=1), pool
        self.last = nn.Conv2d(5, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.first(x))).mean((2, 3))


class Grouped(nn.Module):
    """A convolution in groups between plain ones."""

    def __init__(self, groups: int, wider: int, **window: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 1)
        self.grouped = nn.Conv2d(6, 6 * wider, groups=groups, **window)
        self.last = nn.Conv2d(6 * wider, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.grouped(self.first(x)))).mean((2, 3))


class Attending(nn.Module):
    """Attention over the rows of an image, several times each, with a mask or none.

    Where there are several, each time they are larger: the largest score comes late, so that sums
    over the blocks before it have to shrink.
    """

    def __init__(self, mask: torch.Tensor | None, times: int = 1) -> None:
        super().__init__()
        self.times = times
        self.inner = nn.Linear(9, 3 * 8)
        self.last = nn.Linear(8, 4)
        # What an export has of a mask is an initializer, so that a finite one is trained.
        if mask is not None and mask.isfinite().all():
            self.mask = nn.Parameter(mask)
        else:
            self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([x * (1 + time) for time in range(self.times)], 2)
        n, c, h, _ = x.shape
        q, k, v = self.inner(x).view(n, c, h, 3, 8).unbind(3)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return self.last(found).mean((1, 2))


class Normal(nn.Module):
    """A normalisation of channels with so many elements that several groups share one."""

    def __init__(self, behind: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
        self.behind, self.last = behind, nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.behind(self.norm(self.first(x.repeat(1, 1, 5, 6))))
        return self.last(normal).mean((2, 3))


CAUSAL = torch.triu(torch.full((11, 11), -torch.inf), 1)
BIASED = torch.linspace(-2, 2, 121).view(11, 11)

MODULES = {
    "max-pool": lambda: Pooled(nn.MaxPool2d(3, 2, 1)),
    "max-pool-rectified": lambda: Pooled(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))),
    "max-pool-dilated": lambda: Pooled(nn.MaxPool2d((2, 3), (1, 2), (1, 1), (3, 2))),
    "max-pool-all": lambda: Pooled(nn.MaxPool2d((11, 9))),
    "avg-pool": lambda: Pooled(nn.AvgPool2d(3, 2, 1)),
    "depthwise": lambda: Grouped(6, 1, kernel_size=3, padding=1),
    "depthwise-wider": lambda: Grouped(6, 2, kernel_size=3, stride=2, padding=1),
    "groups": lambda: Grouped(3, 2, kernel_size=3, dilation=2),
    "attention": lambda: Attending(None),
    "attention-causal": lambda: Attending(CAUSAL),
    "attention-biased": lambda: Attending(BIASED),
    # More than one block of queries and of keys, of which the last are not full.
    "attention-blocks": lambda: Attending(torch.triu(torch.full((77, 77), -torch.inf), 1), 7),
    "layer-norm": lambda: nn.Sequential(
        nn.Linear(9, 300), nn.LayerNorm(300), nn.Flatten(), nn.Linear(2 * 11 * 300, 4)
    ),
    "group-norm": lambda: nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.GroupNorm(2, 6), nn.Flatten(), nn.Linear(6 * 9 * 7, 4)
    ),
    "batch-norm": lambda: Normal(nn.Identity()),
    "batch-norm-rectified": lambda: Normal(nn.ReLU6()),
    "embedding": lambda: nn.Sequential(
        Rounded(), nn.Embedding(7, 5), nn.Flatten(), nn.Linear(2 * 11 * 9 * 5, 4)
    ),
}


class Rounded(nn.Module):
    """Numbers of rows from an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs().clamp(0, 6).long()


# The others take minutes together.
FAST = {
    "opencl": {"max-pool", "depthwise-wider", "attention-causal", "batch-norm-rectified"},
    "vulkan": {"max-pool-dilated", "embedding", "batch-norm", "layer-norm", "attention-blocks"},
}


@pytest.mark.parametrize(
    "case", fast_if(lambda case: case[0] in FAST[case[1]], product(MODULES, KINDS)), ids=str
)
def test_as_pytorch(case: tuple[str, str], tmp_path: Path) -> None:
    name, kind = case
    model = TorchModel(MODULES[name], signals(2, 11, 9), classes(4), batch=3, lr=0.05)
    check_parity(model, "torchscript", tmp_path, f"host-{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_step_gives_the_same_bits(kind: str, tmp_path: Path) -> None:
    """No sum depends on which work-item comes first."""
    import odtc
    from benchmarks.models.pytorch.export import export
    from benchmarks.models.pytorch.spec import batches, make

    model = TorchModel(MODULES["max-pool"], signals(2, 11, 9), classes(4), batch=3, lr=0.05)
    x, y = next(batches(model))
    export(make(model), x, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", f"host-{kind}", batch=3)
    runs = []
    for _ in range(2):
        trainer = artifact.trainer()
        for _ in range(3):
            trainer.step(x, y, lr=0.05)
        runs.append(trainer.parameters())
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
