"""The models of the suite's table, small: each has a program, and its steps have the same bits."""

from itertools import islice
from pathlib import Path

import pytest

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from tests.fast import fast_if
from tests.native.parity import TARGET, assert_same_run

STEPS = 2
FAST = ("bert_base",)


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, SMALL))
def test_it_trains_to_the_same_bits(name: str, tmp_path: Path) -> None:
    model = SMALL[name]
    data = list(islice(batches(model), STEPS))
    export(make(model), data[0][0], path := tmp_path / "model.onnx")
    update = odtc.Update(odtc.AdamW(), ema=0.9)
    artifact = odtc.compile(path, TARGET, batch=model.batch, loss=model.loss, optimizer=update)
    assert artifact._bundle.program is not None, artifact.manifest.notes
    assert_same_run(artifact, tmp_path, data, 1e-3, (2,))
