"""Attention is in the file as PyTorch computes it, also where a row is masked as a whole."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import odtc
from odtc.torch_export import export
from odtc.torch_export.attention import spelled_out
from odtc.torch_export.exporters import EXPORTERS
from tests.numeric.conftest import relative_error
from tests.torch_export.files import operators, written

BATCH, STEPS, HEADS, WIDTH = 4, 6, 2, 4
SIZE = HEADS * WIDTH
TAKEN = 5
AHEAD = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)


def added(hidden: Tensor) -> Tensor:
    """The mask that is added, for one that says which keys are hidden."""
    return torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)


class Heads(nn.Module):
    """Attention by the function, with heads of its own or shared ones."""

    def __init__(self, *, groups: int = 1, added: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE // groups)
        self.value = nn.Linear(SIZE, SIZE // groups)
        self.groups, self.added, self.dropout = groups, added, dropout

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        q, k, v = (
            layer(x).view(x.shape[0], STEPS, -1, WIDTH).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        hidden = padding[:, None, None] | AHEAD
        mask = added(hidden) if self.added else ~hidden
        shared = self.groups > 1
        # By either name.
        attention = F.scaled_dot_product_attention if shared else scaled_dot_product_attention
        given = attention(q, k, v, mask, self.dropout if self.training else 0.0, enable_gqa=shared)
        return given.transpose(1, 2).flatten(2)


class Every(nn.Module):
    """Attention as PyTorch's own modules ask for it, and as models do, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.added = Heads(), Heads(added=True)
        self.shared = Heads(groups=2)
        self.many = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(SIZE, HEADS, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        padding = there == 0
        many, _ = self.many(
            *(x, x, x), padding, need_weights=False, attn_mask=AHEAD, is_causal=True
        )
        parts = [part(x, padding) for part in (self.plain, self.added, self.shared)]
        layer = self.layer(x, src_mask=added(AHEAD), src_key_padding_mask=added(padding))
        return torch.cat([*parts, many, layer], -1)


def padded() -> np.ndarray:
    """Padding at the end, at the start, where first queries see nothing, and everywhere."""
    there = np.ones((BATCH, STEPS), np.int64)
    there[1, 3:] = there[2, :4] = there[3] = 0
    return there


def exported(path: Path) -> nn.Module:
    """A module, whose file is at the path; the export compares both on such rows."""
    torch.manual_seed(0)
    module = Every()
    example = {"x": torch.randn(BATCH, STEPS, SIZE), "there": torch.from_numpy(padded())}
    odtc.from_torch(module, example, path)
    assert F.scaled_dot_product_attention is scaled_dot_product_attention
    return module


def test_queries_that_see_no_key_train_as_in_pytorch(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    module, there = exported(path), torch.from_numpy(padded())
    compiled = odtc.compile(path, batch=BATCH, loss="mse", optimizer=odtc.SGD(momentum=0.9))
    trainer, rng = compiled.trainer(), np.random.default_rng(0)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, 0.9)
    for _ in range(TAKEN):
        x = rng.standard_normal((BATCH, STEPS, SIZE)).astype(np.float32)
        y = rng.standard_normal((BATCH, STEPS, 5 * SIZE)).astype(np.float32)
        optimizer.zero_grad()
        # Its flash attention has gradients of its own where a row is masked as a whole.
        with sdpa_kernel(SDPBackend.MATH):
            loss = F.mse_loss(module(torch.from_numpy(x), there), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        given = trainer.step({"x": x, "there": padded()}, y, lr=0.1)
        assert given == pytest.approx(loss.item(), rel=1e-6)
    for name, value in trainer.parameters().items():
        assert relative_error(value, module.get_parameter(name).detach().numpy()) < 1e-5, name


def test_the_exporter_by_torch_export_writes_it_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "torch.export"
    monkeypatch.setattr(export, "EXPORTERS", {name: EXPORTERS[name]})
    exported(tmp_path / "m.onnx")


def test_dropout_of_probabilities_stays(tmp_path: Path) -> None:
    example = torch.randn(2, STEPS, SIZE), torch.zeros(2, STEPS, dtype=torch.bool)
    model, _ = written(Heads(dropout=0.1), example, tmp_path)
    assert operators(model).count("Dropout") == 1


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 5, 4), (2, 2, 3, 5, 4), (5, 4)])
@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -0.3}, {"scale": 0.0}]
)
def test_it_computes_what_the_function_does(
    shape: tuple[int, ...], options: dict[str, object]
) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, *shape)
    query = query[..., :4, :]  # fewer queries than keys
    found = spelled_out(query, key, value, **options)  # type: ignore[arg-type]
    wanted = scaled_dot_product_attention(query, key, value, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found, wanted)
