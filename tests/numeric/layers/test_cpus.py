"""Gradients of drawn layers against PyTorch in double precision, compiled for this machine's CPU.

Kernels alone are tested as LLVM compiles them without optimisation, for any CPU; here as users have
them. A layer lies between two that are linear: what reaches the first is the gradient of its input.
"""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import odtc
from tests.cpus import CPUS, OWN, target_text
from tests.fast import examples, fast_if

CLASSES, BOUND = 5, 2e-5
BY_CPU = pytest.mark.parametrize("cpu", fast_if(lambda name: name == OWN, CPUS))


def drawn(count: int) -> settings:
    """Settings of a property that compiles steps; to shrink one that fails would take minutes."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


class Between(nn.Module):
    """A layer on rows `[batch, steps, width]`, and what is linear around it."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(6, width), layer, nn.LazyLinear(CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.first(x)).flatten(1))


class Rotary(nn.Module):
    """Attention with rotary embeddings, whose heads share keys and values, as in Llama."""

    sine: torch.Tensor
    cosine: torch.Tensor
    mask: torch.Tensor | None

    def __init__(self, shape: tuple[int, int, int, int], masked: str) -> None:
        super().__init__()
        self.heads, self.shared, self.size, steps = shape
        width = self.heads * self.size
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, self.shared * self.size) for _ in range(2))
        angle = torch.outer(torch.arange(steps), 100 ** -torch.linspace(0, 1, self.size // 2))
        self.register_buffer("sine", torch.cat([angle, angle], -1).sin(), persistent=False)
        self.register_buffer("cosine", torch.cat([angle, angle], -1).cos(), persistent=False)
        mask = torch.randn(steps, steps) if masked == "bias" else torch.zeros(steps, steps)
        if masked == "causal":
            mask += torch.full((steps, steps), -1e4).triu(1)
        self.register_buffer("mask", mask if masked else None, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            each(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for each in (self.q, self.k, self.v)
        )
        q, k = self.turned(q), self.turned(k)
        k, v = (each.repeat_interleave(self.heads // self.shared, 1) for each in (k, v))
        y = scaled_dot_product_attention(q, k, v, self.mask)
        return self.o(y.transpose(1, 2).flatten(2))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cosine + torch.cat([-second, first], -1) * self.sine


class Images(nn.Module):
    """Convolution, normalisation and pooling of rows as images of one channel.

    No bias is in front of a normalisation, which takes it away again: its gradient is all rounding.
    """

    def __init__(self, channels: tuple[int, int], groups: int, kernel: int, stride: int) -> None:
        super().__init__()
        first, second = (each * groups for each in channels)
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, first, 3, bias=False), nn.BatchNorm2d(first), nn.SiLU()),
            nn.Conv2d(first, second, kernel, stride, kernel // 2, groups=groups, bias=False),
            *(nn.GroupNorm(groups, second), nn.GELU(), nn.AvgPool2d(2)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x[:, None])


def check(layer: nn.Module, shape: tuple[int, int, int], cpu: str, folder: Path) -> None:
    batch, steps, width = shape
    model = Between(layer, width).train()
    x = torch.randn(batch, steps, 6)
    labels = torch.randint(0, CLASSES, (batch,))
    with torch.no_grad():
        model(x)
    path = folder / "layer.onnx"
    # Statistics of a batch are those of the export's run, too.
    odtc.from_torch(copy.deepcopy(model), x, path)
    made = odtc.compile(path, target_text(cpu), batch=batch, optimizer="sgd")
    trainer = made.trainer()
    before = trainer.parameters()
    loss = trainer.step(x.numpy(), labels.numpy(), lr=1.0)
    after = trainer.parameters()
    model.double()
    expected = cross_entropy(model(x.double()), labels)
    gradients = torch.autograd.grad(expected, [*model.parameters()])
    assert abs(loss - expected.item()) < BOUND * max(1.0, abs(expected.item()))
    norm = np.sqrt(sum(float(each.square().sum()) for each in gradients))
    for (name, _), each in zip(model.named_parameters(), gradients, strict=True):
        gradient = each.numpy()
        error = np.linalg.norm(before[name].astype(np.float64) - after[name] - gradient)
        # Where normalisation takes an effect away again, a gradient is all rounding errors.
        assert error < 5 * BOUND * max(float(np.linalg.norm(gradient)), 0.1 * norm), name


@BY_CPU
@drawn(6)
@given(
    heads=st.sampled_from([(1, 1), (2, 1), (4, 2), (4, 4), (9, 3)]),
    shape=st.tuples(st.sampled_from([4, 8, 16, 32, 64]), st.integers(2, 40), st.integers(1, 3)),
    masked=st.sampled_from(["", "causal", "bias"]),
    seed=st.integers(0, 99),
)
@example(heads=(4, 2), shape=(16, 8, 2), masked="causal", seed=0)
@example(heads=(4, 4), shape=(64, 8, 2), masked="", seed=0)
def test_attention(tmp_path, cpu, heads, shape, masked, seed) -> None:
    torch.manual_seed(seed)
    size, steps, batch = shape
    layer = Rotary((*heads, size, steps), masked)
    check(layer, (batch, steps, heads[0] * size), cpu, tmp_path)


@BY_CPU
@drawn(4)
@given(
    width=st.integers(1, 70),
    hidden=st.integers(1, 70),
    shape=st.tuples(st.integers(1, 9), st.integers(2, 20)),
    seed=st.integers(0, 99),
)
def test_products_and_rows(tmp_path, cpu, width, hidden, shape, seed) -> None:
    torch.manual_seed(seed)
    layer = nn.Sequential(
        *(nn.LayerNorm(width + 1), nn.Linear(width + 1, hidden), nn.GELU()),
        *(nn.Softmax(-1), nn.Linear(hidden, hidden)),
    )
    check(layer, (*shape, width + 1), cpu, tmp_path)


@BY_CPU
@drawn(4)
@given(
    channels=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    groups=st.integers(1, 4),
    window=st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 2)),
    shape=st.tuples(st.integers(2, 4), st.integers(8, 20), st.integers(8, 20)),
    seed=st.integers(0, 99),
)
def test_images(tmp_path, cpu, channels, groups, window, shape, seed) -> None:
    torch.manual_seed(seed)
    check(Images(channels, groups, *window), shape, cpu, tmp_path)
