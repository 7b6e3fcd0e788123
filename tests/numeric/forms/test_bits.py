"""Bits of numbers read as other numbers: forward only."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import OdtcError

# Sign and exponent, and the first 7 bits of the fraction: what bfloat16 keeps.
KEPT = np.int32(-65536)


def model_of(source: str, to: int = TensorProto.INT32) -> onnx.ModelProto:
    nodes = (
        f"h = Mul (x, p) i = BitCast <to = {to}> ({source}) j = BitwiseAnd (i, kept) "
        "f = BitCast <to = 1> (j) y = Mul (f, p)"
    )
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        [
            numpy_helper.from_array(np.ones(5, np.float32), "p"),
            numpy_helper.from_array(KEPT, "kept"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=12)


def test_values(tmp_path) -> None:
    onnx.save(model_of("x"), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    found = odtc.compile(tmp_path / "m.onnx", loss="mse", train=["p"]).trainer().evaluate(x)
    np.testing.assert_array_equal(found, (x.view(np.int32) & KEPT).view(np.float32))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (model_of("h"), r"i \(BitCast\): forward-only: no gradient"),
        (model_of("x", TensorProto.INT64), r"shapes do not fit|have not as many bits"),
    ],
)
def test_refusals(model: onnx.ModelProto, reason: str, tmp_path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(OdtcError, match=reason):
        odtc.compile(tmp_path / "m.onnx", loss="mse", train=["p"])
