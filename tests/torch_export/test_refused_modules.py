"""Modules and examples that `odtc.from_torch` refuses, and leaves as they were."""

import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import odtc
from odtc.core.errors import ModelError, OutputError, UnsupportedError, UsageError


class Fixes(nn.Module):
    """Takes the number of samples of the example for a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) + np.ones((int(x.shape[0]), 1), np.float32).sum()


class Draws(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x)


class Counts(nn.Module):
    def __init__(self, in_place: bool = True) -> None:
        super().__init__()
        self.in_place = in_place
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_place:
            self.seen += 1
        else:
            self.seen = self.seen + 1
        return x * self.seen


class Decides(nn.Module):
    """Goes by a value that is the same for each number of samples."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.max() > -1e9 else x


class ByMode(nn.Module):
    """Reads one weight while it trains, and another one in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(x) if self.training else self.a(x)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0, lambda x: self.a(x) * 2, lambda x: -self.a(x), (x,))


def shared_memory() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = nn.Parameter(module.get_parameter("0.weight").data)
    return module


def with_element(value: float, dtype: torch.dtype = torch.float32, **kwargs: Any) -> nn.Module:
    module = nn.Linear(3, 2, dtype=dtype)
    module.weight.data[1, 2] = value
    return module.requires_grad_(**kwargs)


def with_eight_bits(value: float = 1.0) -> nn.Module:
    """A layer beside a parameter of a type in which PyTorch finds neither least nor most."""
    module = nn.Linear(3, 2)
    scale = torch.full((2,), value).to(torch.float8_e4m3fn)
    module.register_parameter("scale", nn.Parameter(scale, requires_grad=False))
    return module


X = torch.randn(2, 3)
REFUSED = {
    "renormalised words": (
        lambda: nn.Embedding(4, 2, max_norm=1.0),
        *(torch.tensor([1, 2]), {}, UnsupportedError, "max_norm"),
    ),
    "the batch is fixed": (Fixes, X, {}, UnsupportedError, "TorchScript: .*\n.*torch.export: "),
    "random numbers": (Draws, X, {}, UnsupportedError, "draws random numbers in inference, too"),
    "a decision": (Decides, X, {}, UnsupportedError, "goes by the values of a tensor, in .*line"),
    "a branch": (
        Branches,
        *(X, {}, UnsupportedError),
        r"(?s)calls 'cond', .*torch\.cond.*test_refused_modules\.py, line .*torch\.where",
    ),
    "other weights in eval": (
        ByMode,
        *(X, {}, UnsupportedError),
        r"(?s)lacks weights that the module reads: a\.bias, a\.weight.*same weights in train\(\)",
    ),
    "a scripted module": (
        lambda: torch.jit.script(nn.Linear(3, 2)),
        *(X, {}, UsageError, "is scripted"),
    ),
    "a lazy module": (lambda: nn.LazyLinear(2), X, {}, UsageError, "weights without values"),
    "a buffer that counts": (Counts, X, {}, UnsupportedError, "changes buffers .*: seen"),
    "shared memory": (shared_memory, X, {}, UnsupportedError, "'0.weight' and '1.weight' share"),
    "cumulative averages": (
        lambda: nn.BatchNorm1d(3, momentum=None),
        *(X, {}, UnsupportedError, r"momentum=None"),
    ),
    "NaN in a weight": (
        lambda: with_element(np.nan, requires_grad=False),
        *(X, {}, ModelError, r"parameters of the module are not finite.*: weight \(nan\)"),
    ),
    "NaN in half precision": (
        lambda: with_element(np.nan, torch.bfloat16),
        *(X.bfloat16(), {}, ModelError, r"weight \(nan\)"),
    ),
    "eight bits": (
        with_eight_bits,
        *(X, {}, UnsupportedError, "no exporter of PyTorch's writes this module"),
    ),
    "NaN in eight bits": (
        lambda: with_eight_bits(np.nan),
        *(X, {}, ModelError, r"scale \(nan\)"),
    ),
    "an infinite weight": (lambda: with_element(-np.inf), X, {}, ModelError, r"weight \(-inf\)"),
    "no module": (lambda: torch.relu, X, {}, UsageError, "not a torch.nn.Module"),
    "a wrong shape": (lambda: nn.Linear(4, 2), X, {}, UsageError, "fails on the example inputs"),
    "too many inputs": (lambda: nn.Linear(3, 2), (X, X), {}, UsageError, "do not fit"),
    "no tensor": (lambda: nn.Linear(3, 2), (3,), {}, UsageError, "no tensor in the example"),
    "an unknown input": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": {"y": 1}}, UsageError, "no input 'y'"),
    ),
    "too few names": (
        lambda: nn.Linear(3, 2),
        *(X, {"output_names": []}, UsageError, "0 names given for 1 tensor"),
    ),
    "too many names": (
        lambda: nn.Linear(3, 2),
        *(X, {"output_names": ["a", "a"]}, UsageError, "2 names given for 1 tensor"),
    ),
    "a name that is there twice": (
        lambda: nn.Bilinear(3, 3, 2),
        *((X, X), {"input_names": ["a", "a"]}, UsageError, "the name 'a' appears twice"),
    ),
    "an empty name": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": [""]}, UsageError, "'' is no name"),
    ),
    "a name that is no text": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": [3]}, UsageError, "3 is no name"),
    ),
    "an axis that is a truth": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": True}, UsageError, "True is not the number of a dimension"),
    ),
    "an axis that is a text": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": {"input": "1"}}, UsageError, "'1' is not the number of a dimension"),
    ),
    "an axis beyond": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": -3}, UsageError, "2 dimensions, and none is number -3"),
    ),
    "another axis": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": -1}, UsageError),
        r"samples to 4: input as \[2, 4\], from \[2, 3\], since its samples are along dimension 1",
    ),
    "a name of two things": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": ["weight"]}, UsageError, "'weight' is the name of"),
    ),
    "two numbers of samples": (
        lambda: nn.Bilinear(3, 3, 2),
        *((X, X[:1]), {}, UsageError, "input1 has 2 along dimension 0, input2 has 1"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    make_module, example, options, kind, text = REFUSED[case]
    path = tmp_path / "model.onnx"
    with pytest.raises(kind, match=text):
        odtc.from_torch(make_module(), example, path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("in_place", [True, False])
def test_a_module_that_is_refused_is_as_it_was(in_place: bool, tmp_path: Path) -> None:
    module = Counts(in_place)
    held = module.seen
    with pytest.raises(UnsupportedError):
        odtc.from_torch(module, X, tmp_path / "model.onnx")
    assert module.seen is held
    assert module.seen == 0


def test_branches_work_as_before_once_they_are_refused(tmp_path: Path) -> None:
    module = Branches()
    expected = module(X)
    with pytest.raises(UnsupportedError):
        odtc.from_torch(module, X, tmp_path / "model.onnx")
    for each in (module, Branches()):
        each(X).sum().backward()
    assert torch.equal(module(X), expected)


def test_an_infinite_mask_that_is_frozen_is_exported(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)
            mask = torch.tensor([0.0, -torch.inf])
            self.mask = nn.Parameter(mask, requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(self.fc(x) + self.mask, -1)

    with pytest.warns(UserWarning, match="1 parameter is frozen, and not trained"):
        exported = odtc.from_torch(Masked(), X, tmp_path / "m.onnx")
    assert exported.weights.frozen == ("mask",)


def test_a_full_disk_is_no_fault_of_the_module(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OutputError, match="cannot write: File too large"):
            odtc.from_torch(nn.Linear(100, 100), torch.zeros(4, 100), tmp_path / "m.onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
