"""The ways in which a module becomes an ONNX file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import odtc
from odtc.torch_export.watching.kept import quiet

Inputs = tuple[Any, ...] | dict[str, Any]
Way = Callable[[nn.Module, Inputs, Path], None]


def _from_torch(module: nn.Module, inputs: Inputs, path: Path) -> None:
    odtc.from_torch(module, inputs, path)


def _exported(module: nn.Module, inputs: Inputs, path: Path, **options: Any) -> None:
    """Exports by `torch.onnx.export`; arguments by position or by name."""
    args, named = (inputs, {}) if isinstance(inputs, tuple) else ((), inputs)
    with quiet():
        torch.onnx.export(module, args, path, kwargs=named, **options)


_TRAINING = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}

# Name: how it is called in the table, and what it does.
WAYS: dict[str, tuple[str, Way]] = {
    "from_torch": ("`odtc.from_torch`", _from_torch),
    "default": ("`torch.onnx.export`", partial(_exported, verbose=False)),
    "unoptimised": ("with `optimize=False`", partial(_exported, verbose=False, optimize=False)),
    "training": (
        "TorchScript, for training",
        partial(_exported, dynamo=False, **_TRAINING),
    ),
    "torchscript": ("TorchScript, `dynamo=False`", partial(_exported, dynamo=False)),
}
