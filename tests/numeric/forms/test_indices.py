"""Indices out of bounds are refused where they are fed; else they make the loss NaN."""

import numpy as np
import onnx
import onnx.parser
import pytest

import odtc
from odtc.core.errors import DataError, NumericError
from tests.fast import fast_if

TARGETS = ["host-cpu", "host-opencl", "host-vulkan"]
ROWS = 20
Y = np.arange(4) % 3
WRONG = [ROWS, ROWS + 5, -ROWS - 1, 10**9]
# By name: the graph from `ids`, int64[4, 5], and a table `e` to `t`, of four rows.
FED = {
    "gather": "t = Gather (e, ids)",
    "through a reshape": "r = Reshape (ids, flat) c = Cast <to = 6> (r) t = Gather (e, c)",
    "gather nd": "u = Unsqueeze (ids, last) t = GatherND (e, u)",
    "two tables": "s = Gather (e, ids) t = Gather (e, ids)",
}
# The index is computed, or one of several in a row.
COMPUTED = {
    "shifted": "j = Add (ids, one) n = Sub (j, one) t = Gather (e, n)",
    "a part": "p = Slice (ids, zeros, ends, axes) t = Gather (e, p)",
    "elements": "a = Add (ids, one) b = Sub (a, one) t = GatherElements (e, b)",
    "scattered": "a = Add (ids, one) b = Sub (a, one) z = Gather (e, zero_ids) "
    "w = ReduceSum <keepdims = 0> (z, last) t = ScatterElements <axis = 0> (e, b, w)",
}
CONSTANTS = {
    "flat": [20],
    "last": [-1],
    "one": 1,
    "zeros": [0],
    "ends": [4],
    "five": [5],
    "axes": [0],
    "zero_ids": np.zeros((4, 5)),
}


def compiled(body, tmp_path, target="host-cpu"):
    text = f"""<ir_version: 9, opset_import: ["" : 18]> g (int64[4, 5] ids) => (float[4, 3] y)
    {{ {body} f = Reshape (t, rows) m = ReduceMean (f, axes2) y = MatMul (m, v) }}"""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    weights = {"e": rng.standard_normal((ROWS, 8)), "v": rng.standard_normal((1, 3))}
    values = {k: np.asarray(v, np.int64) for k, v in CONSTANTS.items()}
    values |= {"rows": np.array([4, -1]), "axes2": np.array([1])}
    values |= {k: v.astype(np.float32) for k, v in weights.items()}
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, tmp_path / "m.onnx")
    return odtc.compile(tmp_path / "m.onnx", target)


def ids_with(value):
    ids = np.arange(20).reshape(4, 5) % 5
    ids[1, 2] = value
    return ids


@pytest.mark.parametrize("name", FED)
def test_what_is_fed_is_checked(name, tmp_path):
    trainer = compiled(FED[name], tmp_path).trainer()
    before = trainer.parameters()
    for wrong in WRONG:
        for call in (lambda i: trainer.step(i, Y, 0.1), trainer.evaluate):
            with pytest.raises(DataError, match=rf"outside \[-20, 20\): {wrong} at \[1, 2\]"):
                call(ids_with(wrong))
    for key, value in trainer.parameters().items():
        assert value.tobytes() == before[key].tobytes()
    losses = [compiled(FED[name], tmp_path).trainer().step(ids_with(v), Y, 0.1) for v in (3, -17)]
    assert losses[0] == losses[1]


def test_of_two_tables_the_smaller_one_counts(tmp_path):
    """The first five rows, read by the same ids, in either order of the nodes."""
    few = "k = Slice (e, zeros, five, axes)"
    for first, second in ("ke", "ek"):
        reads = f"r = Gather ({first}, ids) s = Gather ({second}, ids)"
        trainer = compiled(f"{few} {reads} t = Add (r, s)", tmp_path).trainer()
        assert np.isfinite(trainer.step(ids_with(4), Y, 0.1))
        with pytest.raises(DataError, match=r"outside \[-5, 5\): 7 at \[1, 2\]"):
            trainer.step(ids_with(7), Y, 0.1)


@pytest.mark.parametrize("target", fast_if("host-opencl".__ne__, TARGETS))
@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_makes_the_loss_nan(name, target, tmp_path):
    built = compiled(COMPUTED[name], tmp_path, target)
    assert np.isfinite(built.trainer().step(ids_with(4), Y, 0.1))
    for wrong in WRONG[:1] + WRONG[2:]:
        with pytest.raises(NumericError):
            built.trainer().step(ids_with(wrong), Y, 0.1)


def test_old_artifacts_load(tmp_path):
    made = compiled(FED["gather"], tmp_path)
    assert {item.rows for item in made.manifest.arguments} == {0, ROWS}
