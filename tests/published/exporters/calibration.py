"""Statistics for batch normalisations of random weights, as training would leave them."""

import torch
from torch import nn


def calibrate(module: nn.Module, example: torch.Tensor) -> None:
    """Gives each batch normalisation the statistics of a batch; the module is in `eval()` then.

    With those it begins with, 0 and 1, each layer of random weights shrinks what it is given: the
    outputs of a deep network do not depend on its inputs, and its gradients are rounding.
    """
    norms = [each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    module.train()
    with torch.no_grad():
        module(example)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    module.eval()
