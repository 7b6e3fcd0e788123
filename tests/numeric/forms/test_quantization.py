"""Quantised tensors run forward; what is trained must not lie before them."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.core.errors import UnsupportedError
from odtc.frontend.coverage import check_graph
from odtc.frontend.file.specialize import specialize
from odtc.frontend.operators.table import OPERATORS

RNG = np.random.default_rng(4)
SHAPE = (2, 3, 5, 4)
TENSORS = {
    "s": np.float32(0.03),
    "z": np.uint8(121),
    "each": np.array([0.02, 0.05, 0.01], np.float32),
    "zeros": np.array([3, -5, 0], np.int8),
    "blocks": (RNG.random((2, 3, 3, 4)) / 20 + 0.01).astype(np.float32),
    "pairs": np.linspace(0.01, 0.06, 60).reshape(2, 3, 5, 2).astype(np.float32),
    "pairz": np.arange(-30, 30).reshape(2, 3, 5, 2).astype(np.int8),
    "w8": RNG.integers(-128, 127, (4, 3, 3, 2), np.int8),
    "w8z": np.array([-4, 0, 9, 100], np.int8),
    "w8s": np.array([0.01, 0.02, 0.005, 0.03], np.float32),
    "bias": np.array([100, -2000, 0, 70000], np.int32),
    "m8": RNG.integers(0, 255, (4, 3), np.uint8),
    "m8z": np.uint8(97),
    "m8s": np.float32(0.04),
    "ys": np.float32(0.2),
    "yz": np.uint8(99),
    "rows": np.array([2, -1]),
}
# Each gives `$y` from an image `x`; `$` in front of a name makes it its own.
NODES = {
    "QuantizeLinear": "$q = QuantizeLinear (x, s, z) $y = Cast <to = 1> ($q)",
    "QuantizeLinear-axis": "$q = QuantizeLinear <axis = 1> (x, each, zeros) "
    "$y = Cast <to = 1> ($q)",
    "QuantizeLinear-blocks": "$q = QuantizeLinear <axis = 2, block_size = 2> (x, blocks) "
    "$y = DequantizeLinear <axis = 2, block_size = 2> ($q, blocks)",
    "DequantizeLinear-axis": "$q = QuantizeLinear <axis = 1> (x, each, zeros) "
    "$y = DequantizeLinear <axis = 1> ($q, each, zeros)",
    "DequantizeLinear-blocks": "$q = QuantizeLinear <axis = 3, block_size = 2> (x, pairs, pairz) "
    "$y = DequantizeLinear <axis = 3, block_size = 2> ($q, pairs, pairz)",
    "DynamicQuantizeLinear": "$q, $qs, $qz = DynamicQuantizeLinear (x) "
    "$y = DequantizeLinear ($q, $qs, $qz)",
    "MatMulInteger": "$q, $qs, $qz = DynamicQuantizeLinear (x) "
    "$m = MatMulInteger ($q, m8, $qz, m8z) $f = Cast <to = 1> ($m) $y = Mul ($f, $qs)",
    "ConvInteger": "$q = QuantizeLinear (x, s, z) $c = ConvInteger <pads = [1, 0, 0, 1], "
    "strides = [2, 1]> ($q, w8, z) $y = Cast <to = 1> ($c)",
    "QLinearMatMul": "$q = QuantizeLinear (x, s, z) "
    "$m = QLinearMatMul ($q, s, z, m8, m8s, m8z, ys, yz) $y = DequantizeLinear ($m, ys, yz)",
    "QLinearConv": '$q = QuantizeLinear (x, s, z) $c = QLinearConv <auto_pad = "SAME_LOWER", '
    "dilations = [1, 2]> ($q, s, z, w8, w8s, w8z, ys, yz, bias) $y = DequantizeLinear ($c, ys, yz)",
}


def model_of(nodes: str, rank: int = 4) -> onnx.ModelProto:
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in TENSORS.items() if k in nodes],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_values_are_those_of_the_reference(tmp_path) -> None:
    stems = [name.replace("-", "_") for name in NODES]
    text = " ".join(
        nodes.replace("$", f"{stem}_") for stem, nodes in zip(stems, NODES.values(), strict=True)
    )
    flat = " ".join(f"{stem}_r = Reshape ({stem}_y, rows)" for stem in stems)
    joined = ", ".join(f"{stem}_r" for stem in stems)
    model = model_of(f"{text} {flat} all = Concat <axis = 1> ({joined}) y = Mul (all, scale)", 2)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "scale"))
    onnx.save(model, tmp_path / "m.onnx")
    x = (3 * RNG.standard_normal(SHAPE)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    artifact = odtc.compile(tmp_path / "m.onnx", loss="mse", train=["scale"])
    np.testing.assert_allclose(artifact.trainer().evaluate(x), expected, rtol=1e-6, atol=1e-6)


def test_what_is_trained_must_not_lie_before_them() -> None:
    tested = set()
    for name, nodes in NODES.items():
        learned = (
            f"h = Mul (x, p) {nodes}".replace("$", "")
            .replace("(x, s, z)", "(h, s, z)")
            .replace("(x)", "(h)")
        )
        model = model_of(learned.replace("(x, ", "(h, "))
        model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "p"))
        model.graph.node[0].input[0] = "x"
        graph = specialize(model, promoted=["p"])
        assert graph.parameters.keys() == {"p"}
        blocking = {r.op_type for r in check_graph(graph) if r.blocks}
        assert blocking & {"QuantizeLinear", "DynamicQuantizeLinear"}, name
        tested |= blocking
    assert tested < {name for name, item in OPERATORS.items() if item.encodes}


@pytest.mark.parametrize("name", ["QLinearConv", "QLinearMatMul"])
def test_a_scale_that_is_computed_of_what_is_trained_is_refused(name: str, tmp_path) -> None:
    nodes = (
        NODES[name]
        .replace("$", "")
        .replace(", ys, yz, bias)", ", t, yz, bias)")
        .replace("ys, yz) y", "t, yz) y")
    )
    model = model_of(f"t = ReduceMax <keepdims = 0> (p) {nodes}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "p"))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(
        UnsupportedError, match=rf"\({name}\): forward-only: no gradient passes through integers"
    ):
        odtc.compile(tmp_path / "m.onnx", loss="mse", train=["p"])
