"""What `from_torch` says of gradients that a module's own code changes."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

import odtc

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
