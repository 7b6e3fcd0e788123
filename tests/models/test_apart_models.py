"""Networks of all families, exported with a symbolic batch, are shown to treat samples alone."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.split.apart import places_of
from odtc.frontend.split.place import Place

BATCH = 4


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_each_sample_is_computed_alone(name: str, tmp_path: Path) -> None:
    model, path = SMALL[name], tmp_path / "model.onnx"
    export(make(model), next(batches(model))[0], path, batch="N")
    graphs = []
    for batch in (BATCH, BATCH // 2, 1):
        graph = specialize(load_model(path), batch)
        join_losses(graph, terms_of(model.loss))
        graphs.append(normalize(graph))
    whole, *parts = graphs
    for part in parts:
        places = places_of(whole, part)
        assert {places[name] for name in whole.outputs} == {Place(0)}
