"""A file that was exported for training, and what is left of that in its inference form."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.inference_form import random_nodes, to_inference

X = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
NORMAL = (X - [[1, 2]]) / np.sqrt(np.array([[4, 9]]) + 1e-5) * [[3, 5]] + [[7, 8]]

_HEAD = (
    '<ir_version: 8, opset_import: ["" : {opset}]>\n'
    "g (float[N, 2] x) => ({outputs})\n"
    "<float[2] s = {{3, 5}}, float[2] b = {{7, 8}}, float[2] m = {{1, 2}}, float[2] v = {{4, 9}},"
    " float ratio = {{0.5}}, bool yes = {{1}}, float p = {{0.75}}, float q = {{0.25}},"
    " float inverse = {{1.3333334}}, int64[2] shape = {{3, 2}}>\n{{ {nodes} }}"
)


def model_of(nodes: str, opset: int = 17, outputs: str = "float[N, 2] y") -> onnx.ModelProto:
    """A model of x with the constants of all cases, of which those that nothing reads are gone."""
    model = parser.parse_model(_HEAD.format(opset=opset, outputs=outputs, nodes=nodes))
    read = {name for node in model.graph.node for name in node.input}
    read |= {name for function in model.functions for node in function.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read or "{" in nodes]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def results(model: onnx.ModelProto) -> list[np.ndarray]:
    """Runs a model on X in onnxruntime."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": X})


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators of the main graph."""
    return [node.op_type for node in model.graph.node]


NORM = "BatchNormalization"
# Opset, nodes, and the operators that are left; each of them gives NORMAL.
NORMS = {
    "15, training": (15, f"y, rm, rv = {NORM} <training_mode = 1> (x, s, b, m, v)", [NORM]),
    "15, inference": (15, f"y = {NORM} (x, s, b, m, v)", [NORM]),
    "9, further outputs": (9, f"y, rm, rv, sm, sv = {NORM} (x, s, b, m, v)", [NORM]),
    "7, spatial": (7, f"y, rm, rv, sm, sv = {NORM} <spatial = 1> (x, s, b, m, v)", [NORM]),
    "a running mean is read": (
        15,
        f"h, rm, rv = {NORM} <training_mode = 1> (x, s, b, m, v)z = Sub (rm, m) y = Add (h, z)",
        [NORM, "Identity", "Sub", "Add"],
    ),
}


@pytest.mark.parametrize(("opset", "nodes", "left"), NORMS.values(), ids=NORMS)
def test_batch_normalisations_take_running_statistics(
    opset: int, nodes: str, left: list[str]
) -> None:
    model = model_of(nodes, opset)
    changes = to_inference(model)
    assert changes == (("1 batch normalisation by running statistics",) if ", rm" in nodes else ())
    assert operators(model) == left
    assert len(model.graph.node[0].output) == 1
    np.testing.assert_allclose(results(model)[0], NORMAL, rtol=1e-5)
    assert model.opset_import[0].version == opset


def test_before_opset_7_a_node_says_that_it_is_a_test() -> None:
    model = model_of(f"h = {NORM} (x, s, b, m, v) y, mask = Dropout (h)", 6)
    to_inference(model)
    assert [item.name for item in model.graph.node[0].attribute] == ["is_test"]
    assert operators(model) == [NORM, "Identity"]


def test_outputs_that_only_training_has_go() -> None:
    nodes = f"y, rm, rv = {NORM} <training_mode = 1> (x, s, b, m, v)"
    model = model_of(nodes, 15, "float[N, 2] y, float[2] rm")
    assert to_inference(model)[-1] == "without the outputs rm, which only training has"
    assert [value.name for value in model.graph.output] == ["y"]


def test_statistics_of_the_batch_that_are_read_are_refused() -> None:
    model = model_of(f"h, rm, rv, sm, sv = {NORM} (x, s, b, m, v) y = Add (h, sm)", 9)
    with pytest.raises(UnsupportedError, match="statistic 'sm' is read elsewhere"):
        to_inference(model)


_KEEP = "r = RandomUniformLike (x) k = Less (r, p) c = Cast <to = 1> (k)"
# As PyTorch writes nn.AlphaDropout(0.25).
_ALPHA = (
    "a = Constant <value_float = 0.86725792> () o = Constant <value_float = -1.0> ()"
    "t = Constant <value_float = 1.5247256> () u = Constant <value_float = 0.3811814> ()"
    "f = Mul (c, a) h = Mul (x, f) n = Add (c, o) k2 = Mul (n, t) d = Add (k2, u)"
)
# Opset, and nodes that are an identity in inference.
DROPOUTS = {
    "13, training": (13, "y, mask = Dropout (x, ratio, yes)"),
    "13, a computed mode": (13, "t = Not (yes) n = Not (t) y = Dropout (x, ratio, n)"),
    "13, no mode": (13, "y = Dropout (x)"),
    "10": (10, "y = Dropout <ratio = 0.5> (x)"),
    "mask over p": (17, f"{_KEEP} d = Div (c, p) y = Mul (x, d)"),
    "mask by 1 / p": (17, f"{_KEEP} d = Mul (c, inverse) y = Mul (d, x)"),
    "above 1 - p": (
        17,
        "r = RandomUniform <shape = [3, 1]> () k = Greater (r, p) c = Cast <to = 1> (k)"
        "d = Div (c, q) y = Mul (x, d)",
    ),
    "Bernoulli": (17, "e = Expand (p, shape) k = Bernoulli (e) d = Div (k, p) y = Mul (x, d)"),
    "AlphaDropout": (17, f"{_KEEP} {_ALPHA} y = Add (h, d)"),
    "AlphaDropout, turned": (17, f"{_KEEP} {_ALPHA} y = Add (d, h)"),
}


@pytest.mark.parametrize(("opset", "nodes"), DROPOUTS.values(), ids=DROPOUTS)
def test_dropout_is_the_identity(opset: int, nodes: str) -> None:
    model = model_of(nodes, opset)
    assert to_inference(model) == ("1 dropout left out",)
    assert operators(model) == ["Identity"]
    assert not model.graph.initializer
    assert not random_nodes(model)
    np.testing.assert_array_equal(results(model)[0], X)


# A mask that is not divided by its share, or not by a constant: nodes, and what X is multiplied by.
MEANS = {
    "not scaled": (f"{_KEEP} y = Mul (x, c)", 0.75),
    "of another scale": (f"{_KEEP} d = Mul (c, p) y = Mul (x, d)", 0.5625),
    "the data scaled": (f"{_KEEP} h = Mul (x, c) y = Div (h, p)", 1.0),
    "rounded down": (
        "r = RandomUniform <shape = [3, 1]> () a = Add (p, r) k = Floor (a) y = Mul (x, k)",
        0.75,
    ),
    "Bernoulli": ("e = Expand (p, shape) k = Bernoulli (e) y = Mul (x, k)", 0.75),
    "above, on the right": (
        "r = RandomUniformLike (x) k = Greater (p, r) c = CastLike (k, x) y = Mul (x, c)",
        0.75,
    ),
    "above, on the left": (
        "r = RandomUniformLike (x) k = Greater (r, p) c = CastLike (k, x) y = Mul (x, c)",
        0.25,
    ),
}


@pytest.mark.parametrize(("nodes", "factor"), MEANS.values(), ids=MEANS)
def test_another_mask_is_its_mean(nodes: str, factor: float) -> None:
    model = model_of(nodes)
    assert to_inference(model) == ("1 dropout left out",)
    assert not random_nodes(model)
    np.testing.assert_allclose(results(model)[0], factor * X, rtol=1e-6)


def test_a_mask_that_is_added_is_said_to_be_no_identity() -> None:
    model = model_of(f"{_KEEP} h = Mul (x, c) d = Sub (c, p) y = Add (h, d)")
    said = "masks that are added, too, by their mean: this is no AlphaDropout, which is left out"
    assert to_inference(model) == ("1 dropout left out", said)
    np.testing.assert_allclose(results(model)[0], 0.75 * X, rtol=1e-6)


RANDOM = {
    "from another range": "r = RandomUniformLike <high = 2.0> (x) k = Less (r, p)"
    "c = Cast <to = 1> (k) d = Div (c, p) y = Mul (x, d)",
    "divided by": f"{_KEEP} y = Div (x, c)",
    "not multiplied": f"{_KEEP} h = Exp (c) y = Mul (x, h)",
    "noise": "r = RandomNormalLike (x) y = Add (x, r)",
}


@pytest.mark.parametrize("nodes", RANDOM.values(), ids=RANDOM)
def test_other_random_numbers_stay(nodes: str) -> None:
    model = model_of(nodes)
    before = model.SerializeToString()
    assert to_inference(model) == ()
    assert model.SerializeToString() == before
    assert len(random_nodes(model)) == 1


@pytest.mark.parametrize(("opset", "kind"), [(10, "bool"), (13, "bool"), (7, "float")])
def test_a_mask_that_is_read_keeps_everything(opset: int, kind: str) -> None:
    inputs = "x, ratio, yes" if opset > 12 else "x"
    model = model_of(f"y, mask = Dropout ({inputs})", opset, f"float[N, 2] y, {kind}[N, 2] mask")
    to_inference(model)
    assert not model.graph.initializer
    assert [len(model.graph.node[0].input), operators(model)] == [1, ["Dropout"]]
    if opset == 13:
        value, mask = results(model)
        np.testing.assert_array_equal(value, X)
        assert mask.all()


def test_bodies_and_functions_are_rewritten_too() -> None:
    """Nodes around a body that feed its nodes are removed as well."""
    inner = "h, rm, rv = BatchNormalization <training_mode = 1> (x, s, b, m, v)"
    model = model_of(
        f"y = If (yes) <then_branch = t () => (float[N, 2] a) {{ {inner}"
        " a = Dropout (h, ratio, yes) }, else_branch = e () => (float[N, 2] a) "
        "{ a = Dropout (x, ratio, yes) }>",
        15,
    )
    function = parser.parse_function(
        '<opset_import: ["" : 15], domain: "own">\n'
        f"norm (x, s, b, m, v) => (y) {{ {inner.replace('h, ', 'y, ')} }}"
    )
    model.functions.append(function)
    changes = to_inference(model)
    assert changes == ("2 batch normalisations by running statistics", "2 dropouts left out")
    assert "ratio" not in {tensor.name for tensor in model.graph.initializer}
    np.testing.assert_allclose(results(model)[0], NORMAL, rtol=1e-5)
    assert len(model.functions[0].node[0].output) == 1
    assert not model.functions[0].node[0].attribute


def test_initializers_that_are_inputs_go_together() -> None:
    model = model_of("y = Dropout (x, ratio, yes)", 12)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, [])
        )
    to_inference(model)
    assert [value.name for value in model.graph.input] == ["x"]


def test_what_nothing_read_before_stays() -> None:
    model = model_of("unread = Neg (x) y = Dropout (x, ratio, yes) again = Add (ratio, ratio)", 13)
    to_inference(model)
    assert operators(model) == ["Neg", "Identity", "Add"]
    assert [tensor.name for tensor in model.graph.initializer] == ["ratio"]
