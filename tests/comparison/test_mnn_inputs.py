"""Peers are asked only for models that their trainers can be handed."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from odtc.comparison.case import Case
from odtc.comparison.engines import ENGINES
from odtc.core.errors import UnsupportedError


def prepare(tmp_path: Path, *types: int) -> object:
    """Prepares MNN for a model of inputs of these types; its weight is listed as one, too."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    fed = [helper.make_tensor_value_info(f"x{n}", each, [4]) for n, each in enumerate(types)]
    fed.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]))
    node = helper.make_node("Identity", ["x0"], ["y"])
    out = helper.make_tensor_value_info("y", types[0], [4])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "g", fed, [out], [weight])), path)
    return ENGINES["mnn"].prepare(Case(str(path), batch=4, threads=1), tmp_path)


def test_one_image_is_taken(tmp_path: Path) -> None:
    assert prepare(tmp_path, TensorProto.FLOAT) == {}


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ([TensorProto.INT64], "not of 1: INT64"),
        ([TensorProto.FLOAT, TensorProto.FLOAT], "not of 2: FLOAT, FLOAT"),
    ],
)
def test_others_are_refused_in_words(tmp_path: Path, types: list[int], said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        prepare(tmp_path, *types)


def test_onnxruntime_is_asked_where_the_batch_is_first(tmp_path: Path) -> None:
    fed = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, "N", 4])]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, "N", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", fed, [out])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    case = Case(str(tmp_path / "m.onnx"), batch=4, threads=1)
    with pytest.raises(UnsupportedError, match="have the batch first"):
        ENGINES["onnxruntime-training"].prepare(case, tmp_path)
