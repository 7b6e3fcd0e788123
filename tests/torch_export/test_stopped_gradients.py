"""Gradients that a module stops, or that ONNX does not know."""

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import odtc
from odtc.torch_export.watching.hooks import applied
from odtc.torch_export.watching.stops import Stops
from tests.torch_export.files import operators


class Words(nn.Module):
    """An embedding with a padding row, and a backbone that gets no gradient."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(6, 4, padding_idx=2), nn.Linear(4, 4)
        self.head = nn.Linear(4, 6)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids).mean(1)
        with torch.no_grad():
            fixed = self.body(torch.ones(4))
        return self.head(x + fixed)


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_that_onnx_does_not_know(tied: bool, tmp_path: Path) -> None:
    """A padding row of zeros is looked up as zero times a word; a tied one is noted."""
    ids = torch.tensor([[1, 2, 3], [2, 2, 5]])
    with pytest.warns(UserWarning, match="stops their gradient, and they are frozen: body"):
        exported = odtc.from_torch(Words(tied=tied), ids, tmp_path / "model.onnx")
    assert exported.weights.frozen == ("body.bias", "body.weight")
    assert any("padding rows that are tied" in note for note in exported.notes) == tied
    assert ("Not" in operators(onnx.load(exported.path))) != tied


class Detaches(nn.Module):
    """One path of two has a gradient, which a line stops."""

    def __init__(self, stop: Any) -> None:
        super().__init__()
        self.fc, self.stop = nn.Linear(3, 3), stop

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        return y + self.stop(y)


def under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


@pytest.mark.parametrize("stop", [Tensor.detach, under_no_grad])
def test_a_gradient_that_is_stopped_is_told_of(stop: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"gradient is stopped .*test_stopped_gradients\.py, line"):
        odtc.from_torch(Detaches(stop), torch.randn(2, 3), tmp_path / "model.onnx")
    exported = odtc.from_torch(Detaches(torch.tanh), torch.randn(2, 3), tmp_path / "model.onnx")
    assert not exported.notes


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach() * 2

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0] * 2


def test_an_autograd_function_is_known_by_what_applies_it_in_c():
    # PyTorch 2.14 has no frame in Python there.
    called = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, of: called.append((event, of)))
    Doubled.apply(torch.ones(2, requires_grad=True))
    sys.setprofile(before)
    found = [event for event, of in called if event.startswith("c_") and applied(of) is Doubled]
    assert found == ["c_call", "c_return"]
    with Stops() as stops:
        Doubled.apply(torch.ones(2, requires_grad=True))
        torch.ones(2, requires_grad=True).detach()
    assert stops.functions == {Doubled}
    assert len(stops.places([])) == 1
