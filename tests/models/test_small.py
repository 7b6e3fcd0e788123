"""A small version of each family trains as PyTorch trains it, from either exporter's file."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from tests.models.parity import check_parity

# Forms that only this exporter writes: sequences, types that follow others, transposed weights.
FAST_DYNAMO = "mobilenet_v2 shufflenet_v2 bert_base gpt2".split()


@pytest.mark.parametrize("name", SMALL)
def test_torchscript(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "torchscript", tmp_path)


@pytest.mark.parametrize(
    "name",
    [name if name in FAST_DYNAMO else pytest.param(name, marks=pytest.mark.slow) for name in SMALL],
)
def test_dynamo(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "dynamo", tmp_path)


# The models without batch normalisation, recurrent layers and constant positions.
@pytest.mark.slow
@pytest.mark.parametrize("name", "lenet alexnet vgg16 squeezenet deep_q".split())
def test_dynamo_as_it_is(name: str, tmp_path: Path) -> None:
    """The default export, optimised."""
    check_parity(SMALL[name], "dynamo-default", tmp_path)
