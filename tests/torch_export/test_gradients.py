"""Notes of `from_torch` on gradients that a module's own code changes."""

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

import odtc
from odtc.core.errors import UnsupportedError

X = torch.randn(2, 3)


class Between(nn.Module):
    """Two layers with something between."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.between = nn.Linear(3, 3), nn.Linear(3, 2), between

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.between(self.a(x)))


class Reverses(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return -gradients[0]


class ReversesAsItIs(Reverses):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x


class Surrogate(Reverses):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype) * x


class Ends(Reverses):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x * 2
        ctx.mark_non_differentiable(result)
        return result


def with_hook(x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 0.1)
    return x


def with_node_hook(x: Tensor) -> Tensor:
    if x.grad_fn is not None:
        x.grad_fn.register_hook(lambda inputs, outputs: None)
    return x


def with_node_prehook(x: Tensor) -> Tensor:
    if x.grad_fn is not None:
        x.grad_fn.register_prehook(lambda outputs: None)
    return x


class HooksItself(Between):
    """A module whose forward hooks one of its parameters while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.a.weight.register_hook(lambda gradient: gradient * 0.1)
                self.b.bias.register_post_accumulate_grad_hook(lambda parameter: None)
        return super().forward(x)


def hooked(make: Callable[[Between], Any]) -> nn.Module:
    module = Between(torch.tanh)
    make(module)
    return module


def notes_of(module: nn.Module, tmp_path: Path) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return odtc.from_torch(module, X, tmp_path / "model.onnx").notes


FILE = r"\S*test_gradients\.py, line \d+"
HOOKED = {
    "a tensor in forward": (lambda: Between(with_hook), FILE),
    "autograd's node in forward": (lambda: Between(with_node_hook), FILE),
    "autograd's node in forward, before it": (lambda: Between(with_node_prehook), FILE),
    "a parameter": (lambda: hooked(lambda m: m.a.weight.register_hook(lambda g: g)), "a.weight"),
    "a parameter, behind it": (
        lambda: hooked(lambda m: m.a.bias.register_post_accumulate_grad_hook(lambda p: None)),
        r"a\.bias",
    ),
    "a part": (
        lambda: hooked(lambda m: m.a.register_full_backward_hook(lambda m, i, o: None)),
        "part 'a'",
    ),
    "a part, before it": (
        lambda: hooked(lambda m: m.b.register_full_backward_pre_hook(lambda m, o: None)),
        "part 'b'",
    ),
}


@pytest.mark.parametrize("case", HOOKED)
def test_hooks_on_gradients_are_told(case: str, tmp_path: Path) -> None:
    make, text = HOOKED[case]
    with pytest.warns(UserWarning, match=rf"hooks change these gradients.*: {text}$"):
        exported = odtc.from_torch(make(), X, tmp_path / "model.onnx")
    assert len(exported.notes) == 1


def test_hooks_that_a_forward_adds_under_no_grad_are_told_and_taken_away(tmp_path: Path) -> None:
    module = HooksItself(torch.tanh)
    before = module.a.weight.register_hook(lambda gradient: None)
    (note,) = notes_of(module, tmp_path)
    assert re.search(rf"none: a\.weight, {FILE}, {FILE}$", note)
    assert [*module.a.weight._backward_hooks] == [before.id]
    assert not module.b.bias._post_accumulate_grad_hooks


def test_a_profile_function_is_called_as_before(tmp_path: Path) -> None:
    seen = []

    def profile(frame: Any, event: str, called: Any) -> None:
        seen.append(event)

    sys.setprofile(profile)
    try:
        notes_of(Between(torch.tanh), tmp_path)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "c_call" in seen


def test_a_random_slope_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"the slope of nn\.RReLU is random") as caught:
        odtc.from_torch(Between(nn.RReLU()), X, tmp_path / "model.onnx")
    assert re.search(FILE, str(caught.value.where))
    assert "nn.LeakyReLU" in str(caught.value.hint)
    module = Between(nn.RReLU())
    module.between.eval()
    assert not notes_of(module, tmp_path)


def test_hooks_of_every_module_are_told(tmp_path: Path) -> None:
    handle = nn.modules.module.register_module_full_backward_hook(lambda m, i, o: None)
    try:
        (note,) = notes_of(Between(torch.tanh), tmp_path)
    finally:
        handle.remove()
    assert note.endswith(": every part")


@pytest.mark.parametrize("kind", [Reverses, ReversesAsItIs, Surrogate, Ends])
def test_functions_with_gradients_of_their_own_are_told(kind: Any, tmp_path: Path) -> None:
    notes = notes_of(Between(lambda x: kind.apply(x) + x), tmp_path)
    (note,) = notes
    assert "functions stop or replace the gradient" in note
    assert f"{kind.__name__} (" in note
    assert "test_gradients.py, line" in note


def test_nothing_is_said_of_a_gradient_as_it_is(tmp_path: Path) -> None:
    assert not notes_of(Between(torch.tanh), tmp_path)
