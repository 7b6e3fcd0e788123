"""A model of the table: a module, and the data and loss that it is trained with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

Inputs = Callable[[np.random.Generator, int], dict[str, np.ndarray]]
Label = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class TorchModel:
    """A PyTorch module and how it is trained.

    Attributes:
        build: makes the module; called with a seeded generator of random numbers.
        inputs: from a generator and a batch to `{input name: array}`, in the order of `forward`.
        label: from a generator and a batch to the labels.
        loss: as odtc's options have it; one of `odtc.comparison.peers.torch_module.LOSSES`.
        batch: samples in a step.
        lr: a learning rate of SGD at which the loss of random data goes down slowly.
        trained: prefix of the parameters to train; the others are frozen.
        frozen_norms: whether batch normalisations are frozen, and in inference mode.
    """

    build: Callable[[], nn.Module]
    inputs: Inputs
    label: Label
    loss: str = "cross-entropy"
    batch: int = 4
    lr: float = 0.01
    trained: str = ""
    frozen_norms: bool = False


def make(model: TorchModel, seed: int = 0) -> nn.Module:
    """The module in training mode, as the parity tests compare it.

    Dropout is switched off, so that two trainers can be compared number by number. All vectors are
    perturbed: a bias that starts at zero is the sum of its gradients alone, so that one ReLU which
    rounds to the other side of zero shows at full size in a relative error; and PyTorch's
    TorchScript exporter merges initializers of equal values.
    """
    torch.manual_seed(seed)
    module = model.build().train()
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point() and tensor.ndim == 1:
                tensor.add_(torch.rand_like(tensor) * 0.2)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name.startswith(model.trained))
    for _, part in _norms(module) if model.frozen_norms else ():
        part.eval().requires_grad_(False)
    return module


def norm_parameters(module: nn.Module) -> list[str]:
    """Names of scales and shifts of batch normalisations."""
    return [f"{name}.{key}" for name, part in _norms(module) for key, _ in part.named_parameters()]


def _norms(module: nn.Module) -> list[tuple[str, nn.Module]]:
    kind = nn.modules.batchnorm._BatchNorm
    return [(name, part) for name, part in module.named_modules() if isinstance(part, kind)]


def batches(model: TorchModel, seed: int = 0):
    """Endless batches of random data: `({input name: array}, labels)`."""
    rng = np.random.default_rng(seed)
    while True:
        yield model.inputs(rng, model.batch), model.label(rng, model.batch)


def images(size: int, channels: int = 3, name: str = "image") -> Inputs:
    """Square images float32[batch, channels, size, size]."""
    return signals(channels, size, size, name=name)


def signals(*shape: int, name: str = "x") -> Inputs:
    """Normal noise, float32[batch, *shape]."""
    return lambda rng, batch: {name: rng.standard_normal((batch, *shape), np.float32)}


def tokens(length: int, vocabulary: int, name: str = "input_ids") -> Inputs:
    """Token numbers int64[batch, length]."""
    return lambda rng, batch: {name: rng.integers(0, vocabulary, (batch, length))}


def joined(*parts: Inputs) -> Inputs:
    """Several inputs, in this order."""
    return lambda rng, batch: {k: v for part in parts for k, v in part(rng, batch).items()}


def classes(count: int, *shape: int) -> Label:
    """Class numbers int64[batch, *shape]."""
    return lambda rng, batch: rng.integers(0, count, (batch, *shape))


def binary(*shape: int) -> Label:
    """Zeros and ones, float32[batch, *shape]."""
    return lambda rng, batch: rng.integers(0, 2, (batch, *shape)).astype(np.float32)


def values(*shape: int) -> Label:
    """Normal noise to regress to, float32[batch, *shape]."""
    return lambda rng, batch: rng.standard_normal((batch, *shape), np.float32)
