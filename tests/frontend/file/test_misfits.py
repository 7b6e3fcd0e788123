"""Operators whose inputs do not fit together are refused before anything is compiled."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import OdtcError, UnsupportedError
from odtc.frontend.coverage import require_runnable
from odtc.frontend.file.specialize import specialize
from odtc.frontend.normalize.pipeline import normalize

SHAPE = (2, 4, 5, 6)
CONSTANTS = {
    "grid": np.zeros((2, 3, 3, 3), np.float32),
    "others": np.zeros((3, 3, 3, 2), np.float32),
    "size": np.array([2, 1, 3, 3]),
    "theta": np.zeros((2, 2, 3), np.float32),
    "image": np.array([5, 5]),
    "block": np.array([2, 2]),
    "columns": np.zeros((2, 8, 3), np.float32),
    "nothing": np.array([0, 2]),
    "regions": np.zeros((3, 4), np.float32),
    "two": np.zeros(2, np.int64),
    "three": np.zeros(3, np.int64),
    "many": np.zeros((2, 4, 9, 6), np.float32),
    "w": np.zeros((3, 4, 2, 2), np.float32),
    "offset": np.zeros((2, 8, 3, 3), np.float32),
    "scales": np.ones(7, np.float32),
    "four": np.ones(4, np.float32),
    "places": np.zeros((2, 4, 5, 5), np.int64),
    "zero": np.array(0, np.float32),
    "one": np.array(1, np.float32),
    "far": np.array(1e30, np.float32),
    "endless": np.array(np.inf, np.float32),
    "from": np.array(-(2**62)),
    "to": np.array(2**62),
    "by": np.array(1),
    "yes": np.array([True, True]),
}
# Nodes that compute `y` from an image `x`.
MISFITS = {
    "GridSample": "y = GridSample (x, grid)",
    "GridSample-batch": "y = GridSample (x, others)",
    "GridSample-mode": 'y = GridSample <mode = "best"> (x, grid)',
    "AffineGrid": "y = AffineGrid (x, size)",
    "Col2Im": "t = Reshape (x, image) y = Col2Im (x, image, block)",
    "Col2Im-blocks": "y = Col2Im (columns, image, block)",
    "Col2Im-nothing": "y = Col2Im (columns, image, nothing)",
    "RoiAlign": "y = RoiAlign <sampling_ratio = 2> (x, regions, two)",
    "RoiAlign-adaptive": "y = RoiAlign (x, regions, three)",
    "MaxRoiPool": "y = MaxRoiPool <pooled_shape = [2, 2]> (x, regions)",
    "TensorScatter": "y = TensorScatter (x, many)",
    "TensorScatter-batch": "y = TensorScatter (x, x, three)",
    "CenterCropPad": "y = CenterCropPad <axes = [1]> (x, block)",
    "CenterCropPad-axis": "y = CenterCropPad <axes = [1, 7]> (x, block)",
    "DeformConv": "y = DeformConv (x, w, offset)",
    "MaxUnpool": "y = MaxUnpool <kernel_shape = [2, 2]> (x, places)",
    "QuantizeLinear": "q = QuantizeLinear (x, scales) y = Cast <to = 1> (q)",
    "QuantizeLinear-zeros": "z = Cast <to = 2> (two) q = QuantizeLinear <axis = 1> (x, four, z) "
    "y = Cast <to = 1> (q)",
    "QuantizeLinear-zero": "q = QuantizeLinear (x, zero) y = Cast <to = 1> (q)",
    "QLinearMatMul-zero": "q = Cast <to = 2> (x) w = Transpose <perm = [0, 1, 3, 2]> (q) "
    "n = Cast <to = 2> (by) r = QLinearMatMul (q, one, n, w, one, n, zero, n) "
    "y = Cast <to = 1> (r)",
    "ConvInteger-window": "q = Cast <to = 2> (x) f = Cast <to = 2> (many) "
    "r = ConvInteger (q, f) y = Cast <to = 1> (r)",
    "DequantizeLinear-zeros": "q = Cast <to = 2> (x) z = Cast <to = 2> (offset) "
    "y = DequantizeLinear (q, one, z)",
    "Det": "y = Det (x)",
    "Conv-weight": "f = Flatten <axis = 0> (w) s = Squeeze (f) y = Conv (x, s)",
    "Conv-kernel": "y = Conv <kernel_shape = [1, 1]> (x, w)",
    # ONNX's inference rounds its size towards zero, and says 1.
    "Conv-window": "y = Conv <dilations = [5, 1], strides = [2, 2]> (x, w)",
    "MaxPool-window": "y = MaxPool <kernel_shape = [6, 2], strides = [2, 2]> (x)",
    "AveragePool-window": "y = AveragePool <kernel_shape = [2, 9], pads = [0, 1, 0, 1]> (x)",
    "Range-float": "r = Range (zero, far, one) y = Add (x, r)",
    "Range-infinite": "r = Range (zero, endless, one) y = Add (x, r)",
    "Range-step": "r = Range (zero, one, zero) y = Add (x, r)",
    "Range-integer": "r = Range (from, to, by) c = Cast <to = 1> (r) y = Add (x, c)",
    "Range-numbers": "r = Range (two, to, by) c = Cast <to = 1> (r) y = Add (x, c)",
    "Clip-numbers": "y = Clip (x, scales)",
    "Cast-type": "h = Relu (x) y = Cast <to = 0> (h)",
    "Sequence-position": "s = SequenceConstruct (x, x) y = SequenceAt (s, two)",
    "Sequence-parts": "s = SplitToSequence <axis = 1> (x, three) y = SequenceAt (s, by)",
    "Sequence-axis": "s = SplitToSequence <axis = 9> (x) y = SequenceAt (s, by)",
    "Sequence-table": "s = SplitToSequence <axis = 1> (x, grid) y = SequenceAt (s, by)",
    "GroupNormalization-none": "y = GroupNormalization <num_groups = 0> (x, scales, scales)",
    "LpNormalization-axis": "y = LpNormalization <axis = 4> (x)",
    "Hardmax-axis": "y = Hardmax <axis = -5> (x)",
    "If-condition": "y = If (yes) <then_branch = g () => (float[2, 4, 5, 6] a) { a = Relu (x) }, "
    "else_branch = h () => (float[2, 4, 5, 6] b) { b = Neg (x) }>",
    "CumProd": "n = ReduceMax <keepdims = 0> (x) i = Cast <to = 7> (n) y = CumProd (x, i)",
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfits_are_refused(name: str) -> None:
    nodes = MISFITS[name]
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=12)
    with pytest.raises(OdtcError) as refusal:
        require_runnable(specialize(model))
    assert refusal.value.hint
    assert "report this model" not in str(refusal.value)


def test_what_fits_is_not() -> None:
    """The same shapes, but for what does not fit above."""
    text = (
        "g = AffineGrid (theta, size) a = GridSample (x, g) "
        "y = CenterCropPad <axes = [2, 3]> (a, image)"
    )
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {text} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=12)
    found = specialize(model)
    require_runnable(found)
    normalize(found)
    assert found.shapes[found.outputs[0]] == (2, 4, 5, 5)


def test_sequences_of_a_default_export_are_named_with_what_works(tmp_path: Path) -> None:
    """Words of a sentence are summed in a Loop that makes a sequence of the results."""
    module = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8), torch.nn.Linear(8, 3))
    example = torch.zeros(2, 5, dtype=torch.int64)
    path = tmp_path / "bag.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (example,), path, dynamo=True, external_data=False, verbose=False)
    with pytest.raises(UnsupportedError, match=r"SequenceInsert is of a sequence") as caught:
        odtc.compile(path)
    assert "odtc.from_torch" in str(caught.value.hint)
    odtc.from_torch(module, example, path)
    trainer = odtc.compile(path, batch=2).trainer(threads=1)
    assert np.isfinite(trainer.step(example.numpy(), np.zeros(2, int), lr=0.1))


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"])
def test_a_pooling_over_no_axes(operator: str) -> None:
    """Of a matrix it is the matrix, or the result for each element; ONNX allows it."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        f"g (float[2, 3] x) => (float[2, 3] y) {{ h = Relu (x) y = {operator} (h) }}"
    )
    graph = specialize(model)
    require_runnable(graph)
    normalize(graph)
    assert graph.shapes[graph.outputs[0]] == (2, 3)
