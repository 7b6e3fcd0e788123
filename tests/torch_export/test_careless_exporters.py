"""What an exporter of PyTorch loses, merges or changes is seen."""

from pathlib import Path

import pytest
import torch
from onnx import numpy_helper
from torch import nn

import odtc
from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.placed_weights import PlacedModel
from odtc.torch_export import exporters
from tests.families import make


def test_a_dropout_that_an_exporter_loses_is_missed(tmp_path: Path, monkeypatch) -> None:
    def without_dropout(request: exporters.Request) -> PlacedModel:
        for part in request.module.modules():
            if isinstance(part, nn.Dropout):
                part.eval()
        return exporters.by_torchscript(request)

    monkeypatch.setattr("odtc.torch_export.export.EXPORTERS", {"careless": without_dropout})
    with pytest.raises(UnsupportedError, match=r"draws random numbers 2 times .* has 0 nodes"):
        odtc.from_torch(make("mlp", without_dropout=False), torch.randn(2, 8), tmp_path / "m.onnx")


def test_an_exporter_that_merges_or_moves_weights_is_seen(tmp_path: Path, monkeypatch) -> None:
    def merging(request: exporters.Request) -> PlacedModel:
        tensors = request.tensors
        program = torch.onnx.export(
            *(request.module, tuple(tensors.values())), input_names=list(tensors), dynamo=True
        )
        assert program is not None
        return PlacedModel(program.model_proto)

    def moving(request: exporters.Request) -> PlacedModel:
        placed = exporters.by_torchscript(request)
        last = placed.model.graph.initializer[-1]
        last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) + 1, last.name))
        return placed

    known = {"merging": merging, "moving": moving}
    monkeypatch.setattr("odtc.torch_export.export.EXPORTERS", known)
    module = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), nn.Linear(4, 4))
    with pytest.raises(UnsupportedError) as caught:
        odtc.from_torch(module, torch.randn(2, 4), tmp_path / "m.onnx", batch_axis=None)
    text = str(caught.value)
    assert "merging: the file lacks weights that the module reads: 1.bias, 1.weight" in text
    assert "moving: the file has other values than the module: 2.bias" in text
