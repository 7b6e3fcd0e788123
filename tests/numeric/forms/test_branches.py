"""An If on data computes both branches and selects one, and the other leaves no trace."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import odtc
from odtc.frontend.file.specialize import specialize
from odtc.frontend.normalize.control.branches import branch_refusal
from tests.numeric.conftest import weight

HEAD = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 6] x) => (float[N, 6] y)
"""
# Of the data the branch that is not taken makes logarithms and roots of 0, and their slopes.
BODY = """{
    h = MatMul (x, v) m = ReduceSum <keepdims = 0> (x) c = Less (m, least)
    s, y = If (c) <
        then_branch = yes () => (float e, float[N, 6] a) {
            e = Constant <value = float {1}> () z = Sub (h, h) l = Log (z) r = Sqrt (z)
            t = MatMul (l, w) q = ReduceSum <keepdims = 0> (z) i = Reciprocal (q)
            j = Mul (r, i) a = Add (t, j) },
        else_branch = no () => (float e, float[N, 6] a) {
            e = Identity (m) t = MatMul (h, w) a = Tanh (t) }>
}"""
WEIGHTS = {"v": weight(6, 6), "w": weight(6, 6)}


def model_of(body: str, **more: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD + body)
    tensors = {**WEIGHTS, "least": np.array([-1e3], np.float32), **more}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in tensors.items() if name in body
    )
    return model


@pytest.mark.parametrize("takes_then", [False, True])
def test_the_branch_that_is_not_taken_leaves_no_trace(takes_then: bool, saved) -> None:
    """Not even NaN times 0: loss, gradients and evaluation are those of the other branch."""
    body = BODY
    if takes_then:
        # The same the other way round, with a condition of rank 1.
        body = BODY.replace("then_branch", "_").replace("else_branch", "then_branch")
        body = body.replace("_ =", "else_branch =").replace("Less (m, least)", "Less (least, m)")
    model = model_of(body)
    artifact = odtc.compile(saved(model), batch=3, loss="mse")
    assert any("both branches are computed" in note for note in artifact.manifest.notes)
    trainer = artifact.trainer(threads=1)
    x, y = weight(3, 6, seed=4), weight(3, 6, seed=5)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})
    np.testing.assert_allclose(trainer.evaluate(x), expected, atol=1e-6)
    loss = trainer.step(x, y, lr=1.0)
    assert loss == pytest.approx(float(np.mean((expected - y) ** 2)), rel=1e-5)
    inner = 2 * (expected - y) / y.size * (1 - expected**2)
    gradients = {"w": (x @ WEIGHTS["v"]).T @ inner, "v": x.T @ (inner @ WEIGHTS["w"].T)}
    for name, gradient in gradients.items():
        found = WEIGHTS[name] - trainer.parameters()[name]
        np.testing.assert_allclose(found, gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("a = ReduceSum <axes = [0]> (h)", "gives 'y' two shapes"),
        ("a = BatchNormalization (h, b, b, b, b)", "the statistics of a BatchNormalization"),
        ("j = Div (i, i) a = Cast <to = 1> (j)", "Div may divide integers by 0"),
        ("a = ScatterElements (h, i, h)", "ScatterElements writes where the data say"),
    ],
)
def test_what_cannot_be_computed_beside_the_other_branch_is_refused(then: str, words: str) -> None:
    body = f"""{{
        h = MatMul (x, v) m = ReduceSum <keepdims = 0> (x) c = Less (m, least)
        i = Cast <to = 7> (x)
        y = If (c) <then_branch = yes () => (float[k, 6] a) {{ {then} }},
                    else_branch = no () => (float[k, 6] d) {{ d = Tanh (h) }}>
    }}"""
    graph = specialize(model_of(body, b=np.ones(6, np.float32)), batch=3)
    (node,) = [node for node in graph.nodes if node.op_type == "If"]
    assert words.replace("gives", "give") in branch_refusal(graph, node)
