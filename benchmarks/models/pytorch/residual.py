"""Deep residual networks whose training does not magnify rounding.

As torchvision starts them, each block adds as much as it is given, and gradients grow from block to
block: over four images and a hundred normalisations PyTorch's own float32 and float64 part by a
thousandth within three steps, whatever the learning rate. Branches that begin small keep them
together within a millionth; every weight has a gradient, unlike with `zero_init_residual` (Goyal
et al. 2017).
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from benchmarks.models.pytorch.torchvision_models import models

BRANCH = 0.2


def bottleneck_net(build: Callable[[], nn.Module]) -> nn.Module:
    """A ResNet of bottleneck blocks, each with its last normalisation at `BRANCH`."""
    net = build()
    blocks: Iterator[Any] = net.modules()
    for block in blocks:
        if isinstance(block, models.resnet.Bottleneck):
            nn.init.constant_(block.bn3.weight, BRANCH)
    return net
