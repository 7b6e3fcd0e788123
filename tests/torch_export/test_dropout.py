"""Dropout of every kind is in the file, and does what PyTorch's does."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from odtc.torch_export.stand_ins import stand_ins
from tests.families import make
from tests.torch_export.files import operators, written

# What SELU gives of numbers far below zero.
SATURATED = -1.7580993408473766


def test_dropout_batch_normalisation_and_stochastic_depth_stay(tmp_path: Path) -> None:
    module = make("efficientnet", without_dropout=False)
    model, _ = written(module, torch.randn(2, 3, 32, 32), tmp_path)
    drops = sum(type(part).__name__ in ("Dropout", "StochasticDepth") for part in module.modules())
    # The first block has the ratio 0.
    assert operators(model).count("Dropout") == drops - 2
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert norms
    assert all(len(node.output) == 3 for node in norms)
    assert not {"RandomUniformLike", "Bernoulli"}.intersection(operators(model))


@pytest.mark.parametrize(
    ("make_module", "shape"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), (2, 4, 8)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Dropout2d(0.2)), (2, 3, 4, 4)),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2, inplace=True)), (2, 3)),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.SELU(), nn.AlphaDropout(0.2)), (2, 3)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.FeatureAlphaDropout(0.2)), (2, 3, 4, 4)),
    ],
    ids=["attention", "channels", "in place", "alpha", "alpha of channels"],
)
def test_every_kind_of_dropout_stays(make_module: Any, shape: Any, tmp_path: Path) -> None:
    module = make_module()
    drops = [part for part in module.modules() if "Dropout" in type(part).__name__]
    drops += [part for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    model, _ = written(module, torch.randn(shape), tmp_path)
    assert operators(model).count("Dropout") == len(drops)


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7])
def test_dropout_for_selu_gives_what_pytorch_does(kind: Any, ratio: float) -> None:
    """The same numbers where it keeps and where it drops, and of channels whole ones."""
    torch.manual_seed(0)
    x, part = torch.randn(64, 32, 3), kind(ratio)
    with stand_ins(part):
        found = part(x)
    wanted = part(x)
    slope = ((1 - ratio) * (1 + ratio * SATURATED**2)) ** -0.5
    low = slope * SATURATED * (1 - ratio)
    for result in (found, wanted):
        drops = torch.isclose(result, torch.tensor(low)) if ratio else result != x
        assert abs(drops.float().mean().item() - ratio) < 0.05
        torch.testing.assert_close(result[~drops], (slope * (x - SATURATED * ratio))[~drops])
        if kind is nn.FeatureAlphaDropout:
            assert (drops.all(2) == drops.any(2)).all()
