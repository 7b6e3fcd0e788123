"""Samples that change one another's outputs are noted: they often lie along another axis."""

import warnings

import pytest
import torch
from torch import nn

import odtc


class Read(nn.Module):
    """A recurrence over a sequence, and its last state."""

    def __init__(self, batch_first: bool):
        super().__init__()
        self.cell = nn.GRU(4, 4, batch_first=batch_first)

    def forward(self, x):
        return self.cell(x)[0]


def mean_of_batch(x):
    return x - x.mean(0, keepdim=True)


class Contrast(nn.Module):
    """Each sample is compared with the mean of all."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return mean_of_batch(self.linear(x))


APART = {
    "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "recurrence": lambda: Read(batch_first=True),
    "norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (4, 1)), nn.BatchNorm1d(4)),
}
MIXED = {
    "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8),
    "recurrence": lambda: Read(batch_first=False),
    "contrast": Contrast,
}


def said_of(make, x, path, **options):
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        odtc.from_torch(make(), x, path, **options)
    return " ".join(str(w.message) for w in caught)


def example(name):
    return torch.randn(5, 4) if name in ("norm", "contrast") else torch.randn(5, 3, 4)


@pytest.mark.parametrize("name", APART)
def test_nothing_is_said_of_samples_apart(name, tmp_path):
    assert "one another" not in said_of(APART[name], example(name), tmp_path / "m.onnx")


@pytest.mark.parametrize("name", MIXED)
def test_samples_that_change_one_another_are_named(name, tmp_path):
    said = said_of(MIXED[name], example(name), tmp_path / "m.onnx")
    assert "axis 0 of" in said
    assert "change one another's outputs" in said


@pytest.mark.parametrize("name", ["encoder", "recurrence"])
def test_the_axis_that_it_proposes_is_right(name, tmp_path):
    path = tmp_path / "m.onnx"
    said = said_of(MIXED[name], example(name), path)
    key = "src" if name == "encoder" else "x"
    assert f"batch_axis={{'{key}': 1}} (--batch-axis {key}=1)" in said
    assert "one another" not in said_of(MIXED[name], example(name), path, batch_axis={key: 1})
