"""Bodies that do not take or give what their nodes do are refused, whatever is computed in them."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto, NodeProto

from odtc.core.errors import ModelError
from odtc.frontend.file.onnx_file import load_model
from tests.fuzz.corpus import model as model_of
from tests.fuzz.corpus import node, value
from tests.fuzz.graphs.structure_kinds import branches, loop, scan


def _lose_input(of: NodeProto) -> None:
    del of.input[-1]


def _lose_output(of: NodeProto) -> None:
    del of.attribute[0].g.output[-1]


def _gain_output(of: NodeProto) -> None:
    of.output.append("more")


def _gain_input(of: NodeProto) -> None:
    next(a for a in of.attribute if a.g.node).g.input.append(value("more", [1]))


def _scan_nothing(of: NodeProto) -> None:
    next(a for a in of.attribute if a.name == "num_scan_inputs").i = 0


def _axes(of: NodeProto) -> None:
    of.attribute.append(onnx.helper.make_attribute("scan_input_axes", [0, 0]))


MISFITS = {
    "a loop without its state": (loop, _lose_input),
    "a loop whose body gives less": (loop, _lose_output),
    "a loop that gives more than its body": (loop, _gain_output),
    "a loop whose body takes more": (loop, _gain_input),
    "a branch that gives nothing": (branches, _lose_output),
    "branches that give less": (branches, _gain_output),
    "a branch that takes something": (branches, _gain_input),
    "a scan without what it scans": (scan, _lose_input),
    "a scan of nothing": (scan, _scan_nothing),
    "a scan whose body takes more": (scan, _gain_input),
    "a scan with axes for others": (scan, _axes),
}


def _written(model: ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("name", MISFITS)
def test_a_body_that_does_not_fit(name: str, tmp_path: Path) -> None:
    make, spoil = MISFITS[name]
    model = make()
    spoil(next(each for each in model.graph.node if each.op_type in ("Loop", "If", "Scan")))
    with pytest.raises(ModelError, match="does not fit its node") as refusal:
        load_model(_written(model, tmp_path))
    assert "node " in str(refusal.value)


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 40])
def test_parts_of_a_split(count: int, tmp_path: Path) -> None:
    """Fewer than the outputs ended the process in ONNX's inference."""
    nodes = [node("Split", "x", "a b", num_outputs=count), node("Add", "a b", "y")]
    model = model_of(nodes, [value("x", [4, 3])], {}, opset=18)
    with pytest.raises(ModelError, match=f"num_outputs is {count}, and there are 2 outputs"):
        load_model(_written(model, tmp_path))


@pytest.mark.parametrize("make", [loop, branches, scan])
def test_a_body_in_a_branch(make: Callable[[], ModelProto], tmp_path: Path) -> None:
    model = make()
    load_model(_written(model, tmp_path))
    inner = next(each for each in model.graph.node if each.op_type in ("Loop", "If", "Scan"))
    outer = node("If", "truth", "outer", then_branch=_branch(inner), else_branch=_branch(inner))
    model.graph.initializer.append(onnx.helper.make_tensor("truth", onnx.TensorProto.BOOL, [], [1]))
    model.graph.node.append(outer)
    load_model(_written(model, tmp_path))
    _gain_input(model.graph.node[-1].attribute[1].g.node[0])
    with pytest.raises(ModelError, match="does not fit its node"):
        load_model(_written(model, tmp_path))


def _branch(inner: NodeProto) -> onnx.GraphProto:
    """A branch of the node alone, by names of its own."""
    copy = NodeProto()
    copy.CopyFrom(inner)
    copy.output[:] = [f"{name}_inside" for name in inner.output]
    return onnx.helper.make_graph([copy], "branch", [], [value(copy.output[0], ["N", 4])])
