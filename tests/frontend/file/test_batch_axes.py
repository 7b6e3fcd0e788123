"""Where the samples of a batch lie is found in the model or said by the user, never guessed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.backends.targets import parse_target
from odtc.core.errors import OdtcError, UsageError
from odtc.core.ir.place import Place
from odtc.core.process.progress import silent
from odtc.core.specs import Role, TensorSpec, of_role
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.drafting import draft_of
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.training import differentiate
from odtc.frontend.feeds import InputOptions
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.elementwise import KLDiv

TARGET = parse_target("host-cpu")
W = np.arange(12, dtype=np.float32).reshape(4, 3)
CONSTANTS = {
    "w": W,
    "a0": np.array([0]),
    "a1": np.array([1]),
    "flat": np.array([-1, 4]),
    "fixed": np.array([2, 5, 4]),
    "rate": np.array(16000),
    "rows": np.array([4, 48]),
    "window": np.ones((3, 3, 3, 3), np.float32),
    "head": np.ones((48, 2), np.float32),
    "first": np.ones((4, 3, 4, 4), np.float32),
    "wi": np.ones((1, 9, 4), np.float32),
    "wr": np.ones((1, 9, 3), np.float32),
}
Shape = list[int | str | None]


def model_of(
    nodes: str, inputs: Mapping[str, Shape], dtypes: Mapping[str, int] = {}, output: str = "y"
) -> onnx.ModelProto:
    words = nodes.replace("(", " ").replace(")", " ").replace(",", " ").split()
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [
            helper.make_tensor_value_info(name, dtypes.get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, n) for n, value in CONSTANTS.items() if n in words],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.fixture
def draft(tmp_path: Path) -> Any:
    def make(model: onnx.ModelProto, **options: Any) -> Draft:
        onnx.save(model, tmp_path / "m.onnx")
        asked = StepOptions(**{"loss": "mse", **options})
        return draft_of(read_source(tmp_path / "m.onnx", TARGET, asked, silent))

    return make


TIME_MAJOR = "t = Transpose <perm = [1, 0, 2]> (x) y = MatMul (t, w)"
CELL = "s, h = GRU <hidden_size = 3> (x, wi, wr, , , h0) y = Squeeze (s, a1)"
BOTH = "s = Add (x, z) y = MatMul (s, w)"
BY_STEPS = "u = Transpose <perm = [1, 0, 2]> (x) " + CELL.replace("(x,", "(u,")


@pytest.mark.parametrize(
    ("nodes", "inputs", "options", "places", "output"),
    [
        ("y = MatMul (x, w)", {"x": ["N", 4]}, {"batch": 3}, {"x": 0}, Place(0)),
        (TIME_MAJOR, {"x": ["N", 5, 4]}, {"batch": 3}, {"x": 0}, Place(1)),
        ("y = MatMul (x, w)", {"x": [5, "N", 4]}, {"batch": 3}, {"x": 1}, Place(1)),
        ("y = MatMul (x, w)", {"x": ["T", "N", 4]}, {"batch": 3, "shape": {"T": 3}}, {"x": 1}, 1),
        # As many steps as samples.
        (CELL, {"x": [3, "b", 4], "h0": [1, "b", 3]}, {"batch": 3}, {"x": 1, "h0": 1}, 1),
        (CELL, {"h0": [1, "s7", 3], "x": ["T", "s7", 4]},
         {"batch": 2, "shape": {"T": 2}, "batch_axis": {"x": 1}}, {"h0": 1, "x": 1}, 1),
        (BY_STEPS, {"h0": [1, "s7", 3], "x": ["s7", 5, 4]}, {"batch": 2}, {"h0": 1, "x": 0}, 1),
        # Nothing has a name; the user gives all sizes.
        (BY_STEPS, {"x": [None, None, 4], "h0": [1, None, 3]},
         {"shape": {"x": (3, 5, 4), "h0": (1, 3, 3)}}, {"x": 0, "h0": 1}, 1),
        # A file of a fixed batch, whose other inputs have that size elsewhere too.
        (CELL, {"x": [2, 2, 4], "h0": [1, 2, 3]}, {}, {"x": 1, "h0": 1}, 1),
        (BY_STEPS, {"x": [1, 5, 4], "h0": [1, 1, 3]}, {"batch": 2}, {"x": 0, "h0": 1}, 1),
        ("m = MatMul (x, w) y = Mul (m, gain)", {"gain": [], "x": ["N", 4]}, {"batch": 2},
         {"x": 0}, 0),
        # The time is the outer one of two in a dimension.
        (TIME_MAJOR.replace("y =", "m =") + " y = Flatten <axis = 2> (m)", {"x": ["N", 5, 4]},
         {"batch": 3}, {"x": 0}, Place(0, 5)),
        ("f = Reshape (x, flat) y = MatMul (f, w)", {"x": ["N", 5, 4]}, {"batch": 3}, {"x": 0},
         Place(0, 1, 5)),
        # Each input with a symbol of its own, as tf2onnx writes them.
        (BOTH, {"x": ["u1", 4], "z": ["u2", 4]}, {"batch": 3, "shape": {"u2": 3}},
         {"x": 0, "z": 0}, 0),
        (BOTH, {"x": [None, 4], "z": [None, 4]}, {"batch": 3}, {"x": 0, "z": 0}, 0),
        # Nothing shows it: a mean over the samples is taken off; the user may know better.
        ("m = ReduceMean <axes = [0]> (x) d = Sub (x, m) y = MatMul (d, w)", {"x": ["N", 4]},
         {"batch": 3}, {"x": 0}, None),
        ("m = ReduceMean <axes = [0]> (x) d = Sub (x, m) y = MatMul (d, w)", {"x": ["N", 4]},
         {"batch": 3, "batch_axis": {"y": 0}}, {"x": 0}, 0),
        # Nor does the second axis show it: that goes into a mean, and no output grows with it.
        ("m = ReduceMean <axes = [0]> (x) d = Sub (x, m) "
         "r = ReduceMean <axes = [1], keepdims = 0> (d) y = MatMul (r, w)", {"x": [2, 5, 4]}, {},
         {"x": 0}, None),
        ("y = MatMul (x, w)", {"x": [5, 3, 4]}, {"batch_axis": {"x": 1}}, {"x": 1}, 1),
        ("y = MatMul (x, w)", {"x": [5, 3, 4]}, {"batch_axis": {"x": None}}, {}, None),
        # It could have no batch, too, and the user gives one.
        ("m = ReduceMean <axes = [0]> (x) d = Sub (x, m) y = MatMul (d, w)", {"x": [None, 4]},
         {"batch": 3, "shape": {"x": (3, 4)}}, {"x": 0}, None),
        # A batch that is fixed inside of the model.
        ("f = Reshape (x, fixed) y = MatMul (f, w)", {"x": ["N", 5, 4]}, {"batch": 2}, {"x": 0},
         None),
    ],
)  # fmt: skip
def test_samples_are_followed(nodes, inputs, options, places, output, draft) -> None:
    found = draft(model_of(nodes, inputs), **options)
    if places is not None:
        assert found.graph.places == {name: Place(axis) for name, axis in places.items()}
    wanted = Place(output) if isinstance(output, int) else output
    assert found.objective.places == (wanted,)
    is_lost = "Sub" in nodes or "fixed" in nodes
    notes = [note for note in found.graph.notes if "--batch-axis y" in note]
    assert bool(notes) == (is_lost and output is None)
    if places and len({*places.values()}) == 1 and output is not None:
        batch = options.get("batch", inputs["x"][places["x"]])
        assert found.batch == (batch or options["shape"]["x"][0])


def test_unread_inputs_are_not_fed(draft) -> None:
    model = model_of("y = MatMul (x, w)", {"extra": ["N", 7], "x": ["N", 4]})
    found = draft(model, batch=3)
    assert [spec.name for spec in found.graph.inputs] == ["x"]
    assert found.graph.bound == {"extra": None}
    assert found.batch == 3


def label_of(draft: Draft) -> Any:
    arguments = differentiate(draft, silent).training.arguments
    return of_role(arguments, Role.LABEL)[0]


def test_labels_lie_where_their_output_does(draft) -> None:
    model = model_of(TIME_MAJOR, {"x": ["N", 5, 4]})
    with pytest.raises(OdtcError, match="axis 1 is the batch") as caught:
        differentiate(draft(model, batch=2, loss="cross-entropy"), silent)
    assert "cross-entropy{axis=-1}" in str(caught.value)
    label = label_of(draft(model, batch=2, loss="cross-entropy{axis=-1}"))
    assert (label.spec.shape, label.place, label.classes.axis) == ((5, 2), Place(1), 2)
    label = label_of(draft(model, batch=2, loss="cross-entropy{axis=0}"))
    assert (label.spec.shape, label.place) == ((2, 3), Place(0))
    label = label_of(draft(model, batch=2))
    assert (label.spec.shape, label.place) == ((5, 2, 3), Place(1))
    with pytest.raises(OdtcError, match="divides by the first dimension"):
        KLDiv().label(TensorSpec("y", (5, 2, 3)), Place(1))


@pytest.mark.parametrize(
    ("shape", "options", "place"),
    [
        (["N", 3], {}, Place(0)),
        ([None, 3], {}, None),
        (["M", 3], {}, None),
        (["N", "N"], {}, None),
        (["N", 3], {"batch_axis": {"y": None}}, None),
        # The batch is another one than the file means, whose name says nothing of it.
        (["T", 3], {"batch_axis": {"x": 0}}, None),
    ],
)
def test_the_file_says_by_a_name_where_the_samples_lie_in_labels(shape, options, place, draft):
    """Of samples that change one another, for which no output is evaluated in parts."""
    nodes = "m = ReduceMean <axes = [0]> (x) d = Sub (x, m) y = MatMul (d, w)"
    model = model_of(nodes, {"x": ["N", 4]})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
    made = draft(model, batch=4, **options)
    assert made.objective.places == (None,)
    assert label_of(made).place == place


def test_parts_of_a_batch_hold_the_samples_of_the_whole(draft, tmp_path) -> None:
    """Of a file of a fixed batch, whose samples lie along the second axis."""
    found = draft(model_of(CELL, {"x": [2, 4, 4], "h0": [1, 4, 3]}), batch_axis={"h0": 1, "x": 1})
    part = draft_of(found.source, found.batch, 2)
    assert [spec.shape for spec in part.graph.inputs] == [(2, 2, 4), (1, 2, 3)]


SELECT = """
z = Equal (sr, rate)
y = If (z) <then_branch = t () => (p) { p = MatMul (x, w) },
            else_branch = e () => (q) { r = MatMul (x, w) q = Neg (r) }>
"""


def test_inputs_that_are_set_are_constants(draft) -> None:
    model = model_of(SELECT, {"x": ["N", 4], "sr": []}, {"sr": TensorProto.INT64})
    found = draft(model, batch=2, set={"sr": 16000})
    assert [node.op_type for node in found.graph.nodes] == ["MatMul"]
    assert found.graph.bound == {"sr": 16000}
    assert any("set to 16000" in note for note in found.graph.notes)
    other = draft(model, batch=2, set={"sr": [8000]})
    assert [node.op_type for node in other.graph.nodes] == ["MatMul", "Neg"]
    for wrong in (0.5, "fast", [1, 2], float("nan"), 2**70):
        with pytest.raises(UsageError, match="input sr"):
            draft(model, batch=2, set={"sr": wrong})
    # A state of zeros, one for each sample.
    found = draft(model_of(BY_STEPS, {"x": ["N", 5, 4], "h0": [1, "N", 3]}), batch=2, set={"h0": 0})
    assert found.objective.places == (Place(1),)
    assert found.graph.bound == {"h0": [[[0.0] * 3] * 2]}


@pytest.mark.parametrize(
    ("dims", "options", "shape"),
    [
        (["N", 3, None, None], {"shape": {"x": (2, 3, 5, 7)}}, (2, 3, 5, 7)),
        (["N", 3, "?", "?"], {"batch": 2, "shape": {"x": (2, 3, 5, 7)}}, (2, 3, 5, 7)),
        ([-1, 3, -1, -1], {"shape": {"x": (2, 3, 5, 7)}}, (2, 3, 5, 7)),
        ([-1, 3, -1, -1], {"batch": 2}, "--shape x=2x3x64x64"),
        (["N", "S", "S"], {"batch": 2, "shape": {"x": (2, 3, 5)}}, (2, 3, 5)),
        (["N", "S", "S"], {"batch": 2, "shape": {"S": 3}}, (2, 3, 3)),
        (["N", "N", "N"], {"shape": {"x": (2, 3, 5)}}, (2, 3, 5)),
        ([None], {"shape": {"x": 5}}, (5,)),
        ([1, 3, 4], {"batch": 2, "shape": {"x": (2, 3, 4)}}, (2, 3, 4)),
        (["N", 3, None, None], {"batch": 2}, "--shape x=2x3x64x64"),
        ([None, None], {"batch": 2}, "--shape x=2x64"),
        (["N", 3], {"shape": {"x": (2, 4)}}, "the model has 3 there"),
        (["N", 3], {"batch": 3, "shape": {"x": (2, 3)}}, "given as 3 and as 2"),
    ],
)  # fmt: skip
def test_sizes_by_input(dims, options, shape, draft) -> None:
    model = model_of("y = Relu (x)", {"x": dims})
    if isinstance(shape, str):
        with pytest.raises(UsageError) as caught:
            draft(model, train=(), **options)
        assert shape in str(caught.value)
        return

    asked = InputOptions(options.get("batch"), options.get("shape", {}))
    assert specialize(model, asked=asked).inputs[0].shape == shape


def test_a_model_that_takes_its_own_batch_only_keeps_it(tmp_path) -> None:
    """The body of a Scan says the size of its states: no other reading of the model fits."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[4, 3] x) => (float[4, 3] y) <float[3] h = {0, 0, 0}, float[3] w = {1, 5, 2}> {
            last, y = Scan (h, x) <num_scan_inputs = 1, body = step
                (float[3] s, float[3] e) => (float[3] new, float[3] out) {
                    p = Mul (e, w) q = Add (p, s) new = Tanh (q) out = Identity (new) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    options = StepOptions(batch=4, loss="mse", train=["w"])
    made = draft_of(read_source(tmp_path / "m.onnx", TARGET, options, silent))
    assert made.graph.inputs[0].shape == (4, 3)


CONVOLVED = "c = Conv <pads = [1, 1, 1, 1]> (x, window) "
FLAT = "f = Reshape <allowzero = 1> (c, rows) y = MatMul (f, head)"
SHIFTED = CONVOLVED + "d = Add (c, first) " + FLAT.replace("(c,", "(d,")


@pytest.mark.parametrize("batch", [None, 4, 8])
def test_a_fixed_batch_of_pytorchs_exporter_is_followed(draft, batch: int | None):
    """It writes the batch into reshapes, with allowzero: a zero would be a size there."""
    model = model_of(CONVOLVED + FLAT, {"x": [4, 3, 4, 4]})
    found = draft(model, batch=batch, train=["window", "head"])
    assert found.batch == (batch or 4)
    assert found.graph.places["x"] == found.objective.places[0] == Place(0)


def test_channels_are_not_taken_for_samples_where_the_batch_cannot_be_followed(draft):
    model = model_of(SHIFTED, {"x": [4, 3, 4, 4]})
    found = draft(model, train=["window", "head"])
    assert found.graph.places["x"] == Place(0)
    assert found.objective.places == (None,)
    (note,) = [each for each in found.graph.notes if "nothing shows where" in each]
    assert "(it takes no other batch than 4: of 8, the model's shapes do not fit together: " in note
    assert "Incompatible dimensions" in note
    assert "Error" not in note
    with pytest.raises(OdtcError, match="shapes do not fit together"):
        draft(model, batch=8, train=["window", "head"])


def test_a_convolution_of_other_channels_is_refused(draft):
    model = model_of(CONVOLVED + "y = Relu (c)", {"x": ["N", 4, 4, 4]})
    with pytest.raises(OdtcError, match="the input has 4 channels; the weight takes 3"):
        draft(model, batch=2)
