"""Computations of a file in other floats are done in float32; nothing else is changed."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from odtc.core.errors import UnsupportedError
from odtc.frontend.coverage import require_trainable
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of


def graph_of(
    text: str, loss: str | dict[str, str] = "mse", promoted: Sequence[str] = ("w",)
) -> Graph:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    graph = specialize(model, promoted=promoted)
    join_losses(graph, terms_of(loss))
    require_trainable(graph)
    return graph


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "double"])
def test_a_whole_graph_is_computed_in_float32(dtype) -> None:
    to = helper.np_dtype_to_tensor_dtype(np.dtype({"double": "float64"}.get(dtype, dtype)))
    graph = graph_of(f"""net ({dtype}[2, 2] x) => ({dtype}[2, 2] y)
        <{dtype}[2, 2] w = {{1, 2, 3, 4}}, {dtype} s = {{2}}> {{
            m = MatMul (x, w) t = Mul (m, s) n = Cast <to = {to}> (t) y = CastLike (n, x) }}""")
    kinds = {graph.dtypes[name] for node in graph.nodes for name in (*node.input, *node.output)}
    assert kinds == {"float32"}
    assert [spec.dtype for spec in graph.inputs] == ["float32"]
    assert graph.parameters["w"].dtype == np.float32
    assert [node.op_type for node in graph.nodes] == ["MatMul", "Mul", "CastLike"]
    name = {"double": "float64"}.get(dtype, dtype)
    inputs, weights = "inputs are taken as float32: x", "1 weight is held in float32"
    note = f"{name} is computed in float32; {inputs}; {weights}, and written back as {name}"
    assert note in graph.notes


def test_casts_are_gone_and_weights_are_read_directly() -> None:
    """onnxconverter-common's float16 with inputs and outputs kept, and its closing softmax."""
    graph = graph_of(
        """net (float[2, 2] x) => (float[2, 2] y) <float16[2, 2] w = {1, 2, 3, 4}> {
            h = Cast <to = 10> (x) m = MatMul (h, w) s = Softmax (m) y = Cast <to = 1> (s) }""",
        "cross-entropy",
    )
    assert [node.op_type for node in graph.nodes] == ["MatMul"]
    assert list(graph.nodes[0].input) == ["x", "w"]


def test_a_cast_of_an_output_that_is_read_elsewhere_stays() -> None:
    graph = graph_of(
        """net (float16[2, 2] x) => (float16[2, 2] t, float[2, 2] y)
        <float16[2, 2] w = {1, 2, 3, 4}> { t = MatMul (x, w) y = Cast <to = 1> (t) }""",
        {"y": "mse"},
    )
    assert [node.op_type for node in graph.nodes] == ["MatMul", "Cast"]


def test_float64_of_integers_keeps_its_type_up_to_where_it_meets_weights() -> None:
    """At 16,777,217 a float32 is another integer."""
    graph = graph_of("""net (int64[2, 2] ids) => (float[2, 2, 2] y)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
            d = Cast <to = 11> (ids) big = Constant <value = double {16777217}> ()
            q = Div (d, big) f = Floor (q) i = Cast <to = 7> (f)
            g = Gather (w, i) wide = Cast <to = 11> (g)
            a = Constant <value = int64[1] {2}> () z = Unsqueeze (q, a)
            v = Mul (wide, z) y = Cast <to = 1> (v) }""")
    types = {node.op_type: graph.dtypes[node.output[0]] for node in graph.nodes}
    assert types["Div"] == types["Floor"] == "float64"
    assert types["Mul"] == types["Gather"] == "float32"
    assert graph.notes


def test_a_file_of_float32_with_sizes_in_float64_is_left_alone() -> None:
    graph = graph_of("""net (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
        s = Shape (x) d = Cast <to = 11> (s) i = Cast <to = 7> (d) r = Reshape (x, i)
        y = MatMul (r, w) }""")
    assert not graph.notes


def test_constants_beyond_float32_stay_finite_and_weights_are_refused() -> None:
    text = """net (double[2, 2] x) => (double[2, 2] y) <double[2, 2] w = {{{w}, 2, 3, 4}}> {{
        least = Constant <value = double {{-1.0e308}}> () m = MatMul (x, w) y = Max (m, least) }}"""
    graph = graph_of(text.format(w=1))
    bounds = [value for name, value in graph.constants.items() if name in graph.nodes[-1].input]
    assert bounds == [np.finfo(np.float32).min]
    with pytest.raises(UnsupportedError, match="the weight has elements beyond float32"):
        graph_of(text.format(w="1.0e300"))


def test_bfloat16_of_operators_that_have_none_in_the_standard() -> None:
    """PyTorch exports a convolution in bfloat16 all the same."""
    graph = graph_of("""net (bfloat16[2, 1, 4, 4] x) => (bfloat16[2, 1, 3, 3] y)
        <bfloat16[1, 1, 2, 2] w = {1, 2, 3, 4}> {
            c = Conv (x, w) f = Cast <to = 1> (c) g = Tanh (f) y = Cast <to = 16> (g) }""")
    assert [node.op_type for node in graph.nodes] == ["Conv", "Tanh"]
    assert graph.shapes["y"] == (2, 1, 3, 3)
    (note,) = graph.notes
    assert "bfloat16 is computed in float32; inputs are taken as float32: x; 1 weight is" in note


def test_a_loss_in_the_type_of_the_file_is_computed_in_float32(tmp_path) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = f"""{head} loss (float16[2, 2] y, float16[2, 2] label) => (float16 l)
        <float16 two = {{2}}> {{
            d = Sub (y, label) p = Mul (d, d) q = Mul (p, two) c = Cast <to = 10> (q)
            l = ReduceMean <keepdims = 0> (c) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "loss.onnx")
    graph = graph_of(
        """net (float16[2, 2] x) => (float16[2, 2] y) <float16[2, 2] w = {1, 2, 3, 4}> {
            y = MatMul (x, w) }""",
        str(tmp_path / "loss.onnx"),
    )
    kinds = {graph.dtypes[name] for node in graph.nodes for name in (*node.input, *node.output)}
    assert kinds == {"float32"}
    assert [spec.dtype for spec in graph.labels] == ["float32"]


def constant_of(text: str, weight: str = "float16", dtype: str = "float16") -> np.ndarray:
    """The constant that the last node multiplies `y` with, or adds to it."""
    graph = graph_of(f"""net ({dtype}[2, 2] x) => ({dtype}[2, 2] y)
        <{weight}[2, 2] w = {{1, 2, 3, 4}}> {{ {text} }}""")
    (name,) = graph.constants.keys() & set(graph.nodes[-1].input)
    assert graph.constants[name].dtype.name == graph.dtypes[name] == "float32"
    return graph.constants[name]


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("cast", ["Cast <to = {to}> (c)", "CastLike (c, x)"])
def test_a_constant_is_not_rounded_because_the_model_is_in_half_precision(
    half: str, cast: str
) -> None:
    """PyTorch's exporter writes the scale of an attention so, and takes its root."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(half))
    found = constant_of(
        f"""c = Constant <value = float {{0.4204482}}> () s = {cast.format(to=to)} r = Sqrt (s)
        m = MatMul (x, w) y = Mul (m, r)""",
        *(half, half),
    )
    assert found == np.sqrt(np.float32(0.4204482))


@pytest.mark.parametrize("value", [-np.inf, np.finfo(np.float32).min, -1e9, np.inf, 70000.0])
def test_what_float16_makes_infinite_stays_so(value: float) -> None:
    """It hides in a mask."""
    least = f"{np.float32(value):.8e}"
    found = constant_of(f"""c = Constant <value = float {{{least}}}> () s = Cast <to = 10> (c)
        m = MatMul (x, w) y = Add (m, s)""")
    assert found == np.copysign(np.inf, value)


def test_a_model_in_float32_rounds_what_it_casts_to_float16() -> None:
    found = constant_of(
        """c = Constant <value = float {0.4204482}> () h = Cast <to = 10> (c)
        s = Cast <to = 1> (h) m = MatMul (x, w) y = Mul (m, s)""",
        *("float", "float"),
    )
    assert found == np.float32(np.float16(0.4204482))
