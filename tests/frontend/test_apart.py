"""Operators said to compute each sample alone do: parts of a batch give the rows of the whole.

Each case is run by ONNX's reference implementation, whole and in parts.
"""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from odtc.core.errors import OdtcError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.split.apart import places_of
from odtc.frontend.split.place import Place

BATCH = 4
SHAPE = (4, 6)
RNG = np.random.default_rng(0)
WEIGHTS = {
    "m": RNG.standard_normal((6, 5)).astype(np.float32),
    "left": RNG.standard_normal((3, 4)).astype(np.float32),
    "kernel": RNG.standard_normal((4, 4, 3)).astype(np.float32),
    "row": RNG.standard_normal((1, 1, 6)).astype(np.float32),
    "first": RNG.standard_normal((1, 1, 6)).astype(np.float32),
    "wi": RNG.standard_normal((1, 20, 6)).astype(np.float32),
    "wr": RNG.standard_normal((1, 20, 5)).astype(np.float32),
    "scale": np.ones(4, np.float32),
    "ones": np.ones(6, np.float32),
}
CONSTANTS = {
    "i0": np.array(0),
    "i1": np.array(1),
    "i2": np.array(2),
    "signal": np.array([-1, 24, 1]),
    "a0": np.array([0]),
    "a1": np.array([1]),
    "am1": np.array([-1]),
    "far": np.array([2**31]),
    "near": np.array([-(2**31)]),
    "two": np.array([2]),
    "flat": np.array([-1, 24]),
    "rows": np.array([-1, 6]),
    "wide": np.array([0, 2, 12]),
    "mixing": np.array([2, -1, 6]),
    "apart": np.array([-1, 16]),
    "picked": np.array([[2, 0], [1, 1]]),
    "frame": np.array([0, 1, 0, 0, 0, 2]),
    "shifted": np.array([-1, 0, 0, 1, 0, 0]),
    "ahead": np.array([1, 0, 0, 0, 0, 0]),
    "k": np.array([2]),
    "picture": np.array([-1, 1, 4, 6]),
    "squares": np.array([-1, 6, 2, 2]),
    "grid": np.array([-1, 3, 4, 2]),
    "pairs": np.array([-1, 12, 2]),
    "listed": np.array([[0], [1]]),
    "f0": np.array(0.5, np.float32),
}
ALONE = [
    "y = Relu (x)",
    "y = Mul (x, row)",
    "y = MatMul (x, m)",
    "y = MatMul (left, x)",
    "t = Transpose <perm = [0, 2, 1]> (x) y = MatMul (x, t)",
    "t = Transpose <perm = [2, 1, 0]> (x) s = Relu (t) y = Transpose <perm = [2, 0, 1]> (s)",
    "y = Softmax <axis = -1> (x)",
    "y = LogSoftmax <axis = 1> (x)",
    "y = ReduceMean <axes = [1], keepdims = 0> (x)",
    "s = ReduceMax <axes = [-1]> (x) y = Sub (x, s)",
    "y = Reshape (x, flat)",
    "s = Reshape (x, rows) y = MatMul (s, m)",
    "s = Reshape (x, rows) t = MatMul (s, m) u = Shape <end = 2> (x) "
    "v = Concat <axis = 0> (u, am1) y = Reshape (t, v)",
    "y = Reshape (x, wide)",
    "y = Flatten (x)",
    "t = Transpose <perm = [1, 0, 2]> (x) u = Flatten <axis = 2> (t) v = MatMul (u, m) "
    "w = Reshape (v, seen) y = Transpose <perm = [1, 0, 2]> (w)",
    "y = Concat <axis = 1> (x, x)",
    "y, z = Split <axis = 1> (x, halves)",
    "y = Slice (x, a1, far, a1)",
    "y = Slice (x, a0, far, a0)",
    "y = Gather <axis = 2> (x, picked)",
    "y = Gather <axis = 1> (x, i1)",
    "n = Cast <to = 7> (x) p = Abs (n) q = Clip (p, i0, i1) y = Gather (m, q)",
    "n = Cast <to = 7> (x) p = Abs (n) q = Clip (p, i0, i1) r = Reshape (q, pairs) "
    "y = GatherND (m, r)",
    "i = Reshape (x, picture) g = Reshape (x, grid) y = GridSample (i, g)",
    "s = Reshape (x, squares) y = Det (s)",
    "y = Conv <pads = [1, 1]> (x, kernel)",
    "y = MaxPool <kernel_shape = [2]> (x)",
    "y = InstanceNormalization (x, scale, scale)",
    "y = LayerNormalization (x, ones)",
    "y = Pad (x, frame)",
    "y = CumSum (x, i1)",
    "y, z = TopK (x, k)",
    "n = ArgMax <axis = 1, keepdims = 0> (x) y = Cast <to = 1> (n)",
    "c = Greater (x, row) y = Where (c, x, row)",
    "u = Shape (x) e = Expand (first, u) y = Add (x, e)",
    "u = Shape <end = 1> (x) v = Concat <axis = 0> (u, a1, six) e = Expand (first, v) "
    "y = Concat <axis = 1> (e, x)",
    "t = Transpose <perm = [1, 0, 2]> (x) s, h, c = LSTM <hidden_size = 5> (t, wi, wr) "
    "y = Squeeze (h, a0)",
    'y = Einsum <equation = "bij,bkj->bik"> (x, x)',
    "u = Unsqueeze (x, am1) y = DFT <axis = 2> (u)",
    "s = Reshape (x, signal) y = STFT (s, i2, , i2)",
]
MIXED = [
    "y = Softmax <axis = 0> (x)",
    "s = ReduceMean <axes = [0]> (x) y = Sub (x, s)",
    "s = ReduceSum (x) y = Div (x, s)",
    "t = Transpose <perm = [1, 0, 2]> (x) y = Softmax <axis = 1> (t)",
    "s = Reshape (x, rows) t = Softmax <axis = 0> (s) u = Shape (x) y = Reshape (t, u)",
    "s = Reshape (x, rows) t = Transpose (s) u = MatMul (s, t) y = MatMul (u, s)",
    "y = CumSum (x, i0)",
    "u = Unsqueeze (x, am1) y = DFT <axis = 0> (u)",
    "r = Slice (x, am1, near, a0, am1) y = Add (x, r)",
    "y = Slice (x, a0, two, a0)",
    "y = Concat <axis = 0> (x, x)",
    "y, z = Split <axis = 0> (x, two_two)",
    "y = Gather (x, picked)",
    "y = GatherND (x, listed)",
    "y = Pad (x, shifted)",
    "y = Pad (x, ahead)",
    "y = Reshape (x, mixing)",
    "y = Reshape (x, apart)",
    "n = ArgMax <axis = 0> (x) y = Cast <to = 1> (n)",
    "s, h, c = LSTM <hidden_size = 5> (x, wi, wr) y = Squeeze (s, a1)",
    "u = Shape <end = 1> (x) n = Cast <to = 1> (u) y = Div (x, n)",
    "u = Shape <end = 1> (x) n = Squeeze (u) r = Range (i0, n, i1) f = Cast <to = 1> (r) "
    "v = Concat <axis = 0> (u, a1, a1) g = Reshape (f, v) y = Mul (x, g)",
    'y = Einsum <equation = "bij,cij->bc"> (x, x)',
]


def model_of(nodes: str) -> onnx.ModelProto:
    constants = CONSTANTS | {
        "halves": np.array([1, 3]),
        "two_two": np.array([2, 2]),
        "six": np.array([6]),
        "seen": np.array([4, -1, 5]),
    }
    given = {**WEIGHTS, **constants}
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(value, name)
            for name, value in given.items()
            if name in nodes.replace("(", " ").replace(")", " ").replace(",", " ").split()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def places_in(model: onnx.ModelProto, parts: int) -> tuple[Graph, dict[str, Place]]:
    whole = normalize(specialize(model, BATCH))
    return whole, places_of(whole, normalize(specialize(model, BATCH // parts)))


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("nodes", ALONE)
def test_parts_give_the_rows_of_the_whole(nodes: str, parts: int) -> None:
    model = model_of(nodes)
    whole, places = places_in(model, parts)
    (name,) = whole.outputs
    place = places[name]
    run = ReferenceEvaluator(model).run
    x = np.random.default_rng(1).standard_normal((BATCH, *SHAPE)).astype(np.float32)
    (expected,) = run(["y"], {"x": x})
    found = [run(["y"], {"x": part})[0] for part in np.split(x, parts)]
    # As `(outer, samples, inner)`, cut where the samples are.
    shape = expected.shape
    split = (*shape[: place.axis], place.outer, -1, place.inner, *shape[place.axis + 1 :])
    joined = np.concatenate([part.reshape(split) for part in found], place.axis + 1)
    np.testing.assert_allclose(joined.reshape(shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nodes", MIXED)
def test_what_mixes_samples_is_refused(nodes: str) -> None:
    with pytest.raises(OdtcError) as caught:
        places_in(model_of(nodes), 2)
    assert caught.value.where or "shapes do not fit" in caught.value.what


def test_weights_that_depend_on_the_place_are_refused() -> None:
    model = model_of("y = Add (x, first)")
    del model.graph.initializer[:]
    value = np.arange(BATCH * 6, dtype=np.float32).reshape(BATCH, 1, 6)
    model.graph.initializer.append(numpy_helper.from_array(value, "first"))
    with pytest.raises(OdtcError):
        places_in(model, 2)


@pytest.mark.parametrize(("shape", "found"), [([1, 4, 6], True), (["N", 4, "N"], False)])
def test_inputs_that_are_the_same_for_all_samples(shape: list[int | str], found: bool) -> None:
    """One without a batch is as a constant; one that grows along two axes has no samples."""
    model = model_of("u = ReduceSum (z) y = Add (x, u)" if not found else "y = Add (x, z)")
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, shape))
    if found:
        whole, places = places_in(model, 2)
        assert places[whole.outputs[0]] == Place(0)
        return
    with pytest.raises(OdtcError, match="holds no entry for each"):
        places_in(model, 2)
