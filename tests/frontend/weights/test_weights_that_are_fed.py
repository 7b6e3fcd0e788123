"""Models whose weights are inputs: of one step, a recurrence reads fewer of them."""

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

import odtc

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[1, 3, 2] x, float[1, 15, 2] w, float[1, 15, 5] r) => (float[1, 3, 5] y)
{ a = Add (x, p) o, y = GRU <hidden_size = 5, layout = 0> (a, w, r) }
"""


def test_the_weights_of_a_state_are_read_by_more_than_one_step(tmp_path) -> None:
    model = onnx.parser.parse_model(TEXT)
    value = numpy_helper.from_array(np.zeros((1, 1, 1), np.float32), "p")
    model.graph.initializer.append(value)
    onnx.save(model, tmp_path / "m.onnx")
    trainer = odtc.compile(tmp_path / "m.onnx", loss="mse", train="p").trainer()
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 3, 2), "w": (1, 15, 2), "r": (1, 15, 5)}
    fed = {k: rng.standard_normal(v).astype(np.float32) for k, v in shapes.items()}
    assert np.isfinite(trainer.step(fed, np.ones((1, 3, 5), np.float32), 0.1))
