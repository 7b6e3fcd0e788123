"""A small version of each family trains as PyTorch trains it, from either exporter's file."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from tests.models.parity import check_parity

TRAINED = (
    "lenet alexnet vgg16 googlenet squeezenet efficientnet_b0 resnet18 resnet50 densenet40_12 "
    "densenet121 xception"
).split()


@pytest.mark.parametrize("name", TRAINED)
def test_three_steps(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "torchscript", tmp_path)
