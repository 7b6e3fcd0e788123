"""A small version of each family trains as PyTorch trains it, from either exporter's file."""

from collections.abc import Collection
from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from tests.models.parity import check_parity

# In CI each family trains from one exporter's file. From this one's: it alone writes sequences, and
# types that follow others.
FAST_DYNAMO = "mobilenet_v2 gpt2".split()
# The rest from the other's, but for what shares its blocks with another model.
FAST_TORCHSCRIPT = SMALL.keys() - {
    *FAST_DYNAMO,
    *("alexnet", "vgg16", "vgg19", "resnet18", "densenet121"),
    *("resnet101", "resnet152", "unet_resize", "shufflenet_v2"),
    *("fcn8", "segnet", "googlenet", "xception", "efficientnet_b0"),
    *("keyword", "deep_q", "dcgan_discriminator"),
}


def fast(names: Collection[str]) -> list:
    """All models of the table; those that are not among the names are slow."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.slow) for name in SMALL]


@pytest.mark.parametrize("name", fast(FAST_TORCHSCRIPT))
def test_torchscript(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "torchscript", tmp_path)


@pytest.mark.parametrize("name", fast(FAST_DYNAMO))
def test_dynamo(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "dynamo", tmp_path)


# The models without batch normalisation, recurrent layers and constant positions.
@pytest.mark.slow
@pytest.mark.parametrize("name", "lenet alexnet vgg16 squeezenet deep_q".split())
def test_dynamo_as_it_is(name: str, tmp_path: Path) -> None:
    """The default export, optimised."""
    check_parity(SMALL[name], "dynamo-default", tmp_path)
