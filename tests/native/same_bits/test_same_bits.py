"""Cells of the table of models and options: compared, or said why not; a difference is found."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from odtc.runtime_rpc.native.binding import NativeTrainer
from tests.native.parity import assert_same_run
from tests.native.same_bits.__main__ import REFUSED, SAME, outcome, row_of
from tests.native.same_bits.options import OPTIONS
from tests.native.same_bits.subject import Subject


@pytest.fixture
def lenet(tmp_path: Path) -> Subject:
    return Subject(SMALL["lenet"], tmp_path)


def test_a_cell_is_compared(lenet: Subject, tmp_path: Path) -> None:
    cells = {
        option: outcome(lenet, OPTIONS[option], tmp_path / option)
        for option in ("clipping", "dropout")
    }
    assert [what for what, _ in cells.values()] == [SAME, REFUSED]
    assert row_of("clipping", {"lenet": cells["clipping"]})[SAME] == ["lenet"]
    assert row_of("dropout", {"lenet": cells["dropout"]})["why"] == ["the model has no Dropout"]


def test_one_bit_that_differs_is_found(lenet: Subject, tmp_path: Path) -> None:
    def change(trainer, number: int) -> None:
        if isinstance(trainer, NativeTrainer) and number == 1:
            weights = (each for (role, _), each in trainer.tensors.items() if role == "parameter")
            next(weights).view("uint32").flat[0] ^= 1

    data = lenet.batches(2)
    artifact = OPTIONS["momentum"].compiled(lenet)
    with pytest.raises(AssertionError):
        assert_same_run(artifact, tmp_path, data, 0.01, (1,), change)
