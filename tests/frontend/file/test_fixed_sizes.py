"""Files of fixed sizes in which the samples do not lie along the first axis."""

import warnings

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import odtc
from odtc.core.errors import DataError, ModelError, UsageError

HEAD = """<ir_version: 9, opset_import: ["" : 18]>
g (float[7, 4, 5] x) => (float[4, 3] y)"""
LAST = "{ z = Gather <axis = 0> (s, last) y = MatMul (z, v) }"
# Each sample is computed alone along axis 1, by any number of them.
SUMS = f"{HEAD} {{ m = MatMul (x, w) s = CumSum (m, zero) {LAST[1:]}"
# Of no other number: a table has a row for each.
TABLE = f"{HEAD} {{ a = Add (x, four) m = MatMul (a, w) s = CumSum (m, zero) {LAST[1:]}"


def saved(text, tmp_path):
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    shapes = {"w": (5, 6), "v": (6, 3), "four": (1, 4, 5)}
    values = {k: rng.standard_normal(v).astype(np.float32) for k, v in shapes.items() if k in text}
    values |= {"zero": np.array(0), "last": np.array(6)}
    for name, value in values.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_the_axis_is_the_one_that_an_output_grows_with(tmp_path) -> None:
    for batch, expected in ((None, 4), (4, 4), (8, 8)):
        made = odtc.compile(saved(SUMS, tmp_path), batch=batch)
        assert made.manifest.inputs[0].shape == (7, expected, 5)
        assert made.manifest.batch == expected


def test_where_nothing_shows_it_that_is_said(tmp_path) -> None:
    path = saved(TABLE, tmp_path)
    (note,) = [n for n in odtc.compile(path).manifest.notes if "nothing shows" in n]
    assert "axis 0 of x holds the samples: no output grows with it" in note
    with pytest.raises(ModelError, match="of fixed sizes, cannot become 8"):
        odtc.compile(path, batch=8)
    assert odtc.compile(path, batch_axis={"x": 1}).manifest.batch == 4


def test_numbers_of_samples(tmp_path) -> None:
    path = saved(SUMS, tmp_path)
    assert odtc.compile(path, batch=np.int64(8)).manifest.batch == 8
    for wrong in ("4", 4.0, True):
        with pytest.raises(UsageError, match="not a whole number"):
            odtc.compile(path, batch=wrong)


def test_objects_of_pytorch_are_none_of_odtcs(tmp_path) -> None:
    path = saved(SUMS, tmp_path)
    adam = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    with pytest.raises(UsageError, match=r"the optimizer is a torch.optim.adam.Adam"):
        odtc.compile(path, optimizer=adam)
    for loss in (nn.CrossEntropyLoss(), {"y": nn.MSELoss()}):
        with pytest.raises(UsageError, match=r"the loss is a torch.nn.modules.loss"):
            odtc.compile(path, loss=loss)


def test_a_learning_rate_below_zero_is_refused(tmp_path) -> None:
    trainer = odtc.compile(saved(SUMS, tmp_path)).trainer()
    with pytest.raises(DataError, match=r"the learning rate -0.1 is below 0"):
        trainer.step(np.zeros((7, 4, 5), np.float32), np.zeros(4, int), -0.1)


def test_what_a_file_lost_is_a_warning_in_python(tmp_path) -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.randn(4, 1, 4, 4),), tmp_path / "m.onnx", verbose=False)
    with pytest.warns(UserWarning, match="compile: the exporter folded batch normalisations") as w:
        odtc.compile(tmp_path / "m.onnx")
    assert {each.filename for each in w} == {__file__}


def test_statistics_of_one_value_are_told(tmp_path) -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    odtc.from_torch(module, torch.randn(4, 4), tmp_path / "m.onnx")
    notes = {b: odtc.compile(tmp_path / "m.onnx", batch=b).manifest.notes for b in (1, 2)}
    assert ["of one value" in " ".join(each) for each in notes.values()] == [True, False]
