"""A length that is left open: what the file says of it, and what is no length."""

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import odtc
from odtc.core.errors import UsageError
from odtc.torch_export import export
from odtc.torch_export.exporters import EXPORTERS
from tests.runtime_rpc.lengths.languages import BATCH, LOSS, TARGET, decoder, ragged

IDS = torch.ones(2, 5, dtype=torch.int64)


def sizes(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_file_has_two_open_sizes(
    exporter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "EXPORTERS", {exporter: EXPORTERS[exporter]})
    module = decoder(is_causal=True, has_mask=True)
    example = {"input_ids": IDS, "attention_mask": IDS}
    exported = odtc.from_torch(module, example, tmp_path / "m.onnx", length_axis=1)
    assert exported.exporter == exporter
    graph = onnx.load(exported.path).graph
    assert [sizes(each) for each in graph.input] == [["batch", "length"]] * 2
    assert sizes(graph.output[0]) == ["batch", "length", 32]
    assert graph.input[0].type.tensor_type.shape.dim[0].denotation == "DATA_BATCH"
    options = {"batch": BATCH, "loss": LOSS, "lengths": (4, 8)}
    with odtc.compile(exported, TARGET, **options).trainer() as trainer:
        trainer.step(*ragged(module, (3, 2), 7, 0), lr=0.1)


class Summed(nn.Module):
    """An output as long as twice its input, and one that goes with no length."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x) + bias
        return torch.cat([y, y], 1), y.sum(1)


def test_outputs_of_other_lengths_and_inputs_of_none(tmp_path: Path) -> None:
    example = (torch.randn(2, 4, 3), torch.randn(3))
    axes = {"batch_axis": {"bias": None}, "length_axis": {"x": -2}}
    path = odtc.from_torch(Summed(), example, tmp_path / "m.onnx", **axes).path
    graph = onnx.load(path).graph
    assert [sizes(each) for each in graph.input] == [["batch", "length", 3], [3]]
    assert [sizes(each) for each in graph.output] == [["batch", 0, 3], ["batch", 3]]


@pytest.mark.parametrize(
    ("axis", "text"),
    [
        ({"x": 1}, "there is no input 'x'"),
        ({"input_ids": 2}, "input 'input_ids' has 2 dimensions, and none is number 2"),
        ({"input_ids": 0}, "2 or more, beside the samples: input_ids has 2 along dimension 0"),
        ("1", "'1' is not the number of a dimension"),
    ],
)
def test_what_is_no_length(axis: object, text: str, tmp_path: Path) -> None:
    module = decoder(is_causal=True, has_mask=False)
    with pytest.raises(UsageError, match=text) as caught:
        odtc.from_torch(module, IDS, tmp_path / "m.onnx", length_axis=axis)  # type: ignore[arg-type]
    assert caught.value.where == "length_axis"


def test_a_module_with_no_more_places_than_its_example(tmp_path: Path) -> None:
    module = decoder(is_causal=True, has_mask=False)
    places = module.position.num_embeddings
    ids = torch.ones(2, places, dtype=torch.int64)
    odtc.from_torch(module, ids, tmp_path / "m.onnx", length_axis=1)
    with pytest.raises(UsageError, match="fails on the example inputs"):
        odtc.from_torch(module, IDS[:, :1].repeat(1, places + 1), tmp_path / "m.onnx")
