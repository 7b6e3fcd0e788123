"""A model that has NaN in a weight that is not trained."""

from pathlib import Path

import onnx
import pytest

import odtc

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
net (float[2, 3] x) => (float[2, 2] y)
    <float[3, 2] v = {1, 2, 3, 4, 5, 6}, float[2, 2] w = {1, 2, 3, 4}> {
        h = MatMul (x, v) y = MatMul (h, w) }"""


@pytest.mark.parametrize(("value", "said"), [("nan", True), ("-inf", False)])
def test_a_compile_warns_of_it(
    value: str, said: bool, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer[0].float_data[1] = float(value)
    onnx.save(model, tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", loss="mse", freeze=["v"])
    told = [str(each.message) for each in recwarn]
    note = "compile: v: NaN in the model, and so in all that is computed from it"
    assert (note in told) is said
