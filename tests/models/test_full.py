"""The models at full size train as PyTorch trains them."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import FULL
from tests.models.parity import check_parity


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FULL)
def test_torchscript(name: str, tmp_path: Path) -> None:
    check_parity(FULL[name], "torchscript", tmp_path)
