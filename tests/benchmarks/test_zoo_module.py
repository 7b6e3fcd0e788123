"""PyTorch's modules of the zoo's graphs compute what the graphs say."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from benchmarks.models.zoo import zoo_model, zoo_names
from benchmarks.reference.pytorch import TorchTrainer
from odtc.comparison.peers.torch_source import callable_of
from tests.fast import fast_if

# Between them they have every operator of the nine.
FAST = ("inception_v2", "shufflenet", "squeezenet")


LR = 1e-3


@pytest.mark.parametrize("name", fast_if(lambda name: name in FAST, zoo_names()))
def test_a_module_takes_the_step_of_the_reference(name: str) -> None:
    module = callable_of(f"benchmarks.suites.modules:zoo/{name}")().double()
    x = np.random.default_rng(0).standard_normal((2, 3, 224, 224))
    y = np.array([1, 2])
    reference = TorchTrainer(zoo_model(name), lr=LR, dtype=torch.float64)
    first = reference.parameters()
    loss = F.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    assert loss.item() == pytest.approx(reference.step(x, y), rel=1e-9)
    moved = {key: first[key] - value for key, value in reference.parameters().items()}
    gradients = dict(module.named_parameters())
    assert gradients.keys() == moved.keys() - dict(module.named_buffers()).keys()
    for key, parameter in gradients.items():
        assert parameter.grad is not None
        expected = torch.from_numpy(moved[key])
        error = (LR * parameter.grad - expected).abs().max()
        # The gradient of a bias before a batch normalisation is zero but for rounding.
        assert error <= 1e-6 * expected.abs().max() + 1e-15, key
