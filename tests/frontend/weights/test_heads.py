"""A new head is PyTorch's for that many classes, and the rest of the model stays what it was."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from odtc.core.errors import OdtcError, UnsupportedError, UsageError
from odtc.frontend.heads.replace import put_head

BATCH, OLD, NEW, WIDTH = 3, 10, 4, 6


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    shape: Sequence[int | str] = ("N", WIDTH),
    outputs: Sequence[tuple[str, Sequence[int | str]]] = (("y", ("N", OLD)),),
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", kind, shape)],
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name == "label" else kind, dims
            )
            for name, dims in outputs
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def _stored(model: onnx.ModelProto, name: str) -> np.ndarray:
    return next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == name)


def _run(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    return ReferenceEvaluator(model).run(None, {"x": x})


node = helper.make_node
_W, _B = _array(WIDTH, OLD), _array(OLD)
_SHAPE = np.array([-1, OLD])


def _constant(name: str, value: np.ndarray) -> onnx.NodeProto:
    return node("Constant", [], [name], value=numpy_helper.from_array(value, name))


# Ways in which exporters write a classifier, and the names that the new weight and bias have.
FORMS = {
    "Gemm": (
        _model([node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1)],
               {"fc.weight": _W.T.copy(), "fc.bias": _B}),
        ("fc.weight", "fc.bias"),
    ),
    "MatMul and Add, closed": (
        _model([node("MatMul", ["x", "w"], ["s"]), node("Add", ["b", "s"], ["l"]),
                node("Softmax", ["l"], ["y"])], {"w": _W, "b": _B}),
        ("w", "b"),
    ),
    "transposed": (
        _model([node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["s"]),
                node("Add", ["s", "b"], ["y"])], {"w": _W.T.copy(), "b": _B}),
        ("w", "b"),
    ),
    "in Constant nodes": (
        _model([_constant("w", _W), _constant("b", _B[None]), node("MatMul", ["x", "w"], ["s"]),
                node("Add", ["s", "b"], ["l"]), node("Softmax", ["l"], ["y"])], {}),
        ("w", "b"),
    ),
    "without a bias": (
        _model([node("MatMul", ["x", "fc.weight"], ["y"])], {"fc.weight": _W}),
        ("fc.weight", "fc.bias"),
    ),
    "Gemm without a bias": (
        _model([node("Gemm", ["x", "w"], ["y"])], {"w": _W}),
        ("w", "head.bias"),
    ),
    "with a label": (
        _model([node("Gemm", ["x", "w", "b"], ["y"]), node("ArgMax", ["y"], ["label"], axis=1)],
               {"w": _W, "b": _B},
               outputs=(("label", ("N", 1)), ("y", ("N", OLD)))),
        ("w", "b"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_the_new_layer(form: str) -> None:
    model, names = FORMS[form]
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    head = put_head(changed, NEW)
    assert (head.weight, head.bias) == names
    weight, bias = (_stored(changed, name) for name in names)
    assert sorted(weight.shape) == sorted((NEW, WIDTH))
    assert bias.size == NEW
    # PyTorch's Linear: both uniform within 1 / sqrt(features).
    bound = 1 / np.sqrt(WIDTH)
    for value in (weight, bias):
        assert 0.3 * bound < np.abs(value).max() <= bound
    x = _array(BATCH, WIDTH)
    (given,) = _run(changed, x)
    scores = x @ (weight if weight.shape == (WIDTH, NEW) else weight.T) + bias.reshape(-1)
    if "closed" in form or "Constant" in form:
        scores = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(given, scores, rtol=1e-5, atol=1e-6)
    dims = changed.graph.output[0].type.tensor_type.shape.dim
    assert dims[1].dim_value == NEW


@pytest.mark.parametrize("pooled_first", [False, True])
def test_a_convolution_behind_which_the_image_is_pooled(pooled_first: bool) -> None:
    conv = node("Conv", ["p" if pooled_first else "x", "w", "b"], ["c"])
    pool = node("GlobalAveragePool", ["x" if pooled_first else "c"], ["p"])
    last = "c" if pooled_first else "p"
    model = _model(
        [*((pool, conv) if pooled_first else (conv, pool)), node("Reshape", [last, "s"], ["y"])],
        {"w": _array(OLD, 3, 1, 1), "b": _B, "s": np.array([BATCH, OLD])},
        shape=(BATCH, 3, 5, 5),
        outputs=[("y", (BATCH, OLD))],
    )
    head = put_head(model, NEW)
    x = _array(BATCH, 3, 5, 5)
    weight, bias = _stored(model, head.weight), _stored(model, head.bias)
    (given,) = _run(model, x)
    expected = np.einsum("nchw,kc->nk", x, weight[:, :, 0, 0]) / 25 + bias
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)
    assert any("is now [3, 4]" in line for line in head.said)


def test_what_others_read_stays() -> None:
    """A weight that an embedding reads, too."""
    graph = helper.make_graph(
        [node("Gather", ["w", "x"], ["e"]), node("ReduceMean", ["e"], ["f"], axes=[1], keepdims=0),
         node("Transpose", ["w"], ["t"]), node("MatMul", ["f", "t"], ["y"])],
        "tied",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ("N", 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N", OLD))],
        [numpy_helper.from_array(_W.T.copy(), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    head = put_head(model, NEW)
    assert head.weight == "head.weight"
    np.testing.assert_array_equal(_stored(model, "w"), _W.T)
    x = np.array([[1, 2], [3, 9], [0, 0]])
    (given,) = _run(model, x)
    expected = _W.T[x].mean(1) @ _stored(model, head.weight).T + _stored(model, head.bias)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)
    assert any("read elsewhere" in line for line in head.said)


@pytest.mark.parametrize(
    ("shape", "mean"), [((3, 6), ()), ((3, 5, 6), (1,)), ((3, 6, 2, 2), (2, 3))]
)
def test_cut_at_a_tensor(shape: tuple[int, ...], mean: tuple[int, ...]) -> None:
    model = _model(
        [node("Tanh", ["x"], ["f"]), node("Sigmoid", ["f"], ["logits"]), node("Exp", ["f"], ["y"])],
        {},
        shape=shape,
        outputs=[("y", shape), ("logits", shape)],
    )
    head = put_head(model, NEW, at="f")
    assert [value.name for value in model.graph.output] == ["logits"]
    assert [each.op_type for each in model.graph.node if each.op_type in ("Exp", "Sigmoid")] == []
    x = _array(*shape)
    (given,) = _run(model, x)
    features = np.tanh(x).mean(mean) if mean else np.tanh(x)
    expected = features @ _stored(model, head.weight).T + _stored(model, head.bias)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)


def test_half_heads_are_half() -> None:
    half = {"w": _W.astype(np.float16), "b": _B.astype(np.float16)}
    model = _model([node("Gemm", ["x", "w", "b"], ["y"])], half, kind=TensorProto.FLOAT16)
    head = put_head(model, NEW)
    assert _stored(model, head.weight).dtype == _stored(model, head.bias).dtype == np.float16
    (given,) = _run(model, _array(BATCH, WIDTH).astype(np.float16))
    assert given.shape == (BATCH, NEW)


def test_seeds() -> None:
    def weight(seed: int) -> np.ndarray:
        model = onnx.ModelProto.FromString(FORMS["Gemm"][0].SerializeToString())
        return _stored(model, put_head(model, NEW, seed=seed).weight)

    np.testing.assert_array_equal(weight(1), weight(1))
    assert (weight(1) != weight(2)).any()


_CUT = _model(
    [node("Gemm", ["x", "w", "b"], ["s"]), node("Reshape", ["s", "t"], ["y"])],
    {"w": _W, "b": _B, "t": np.array([-1, 2, 5])},
    outputs=[("y", ("N", 2, 5))],
)
_NONE = _model([node("Tanh", ["x"], ["y"])], {}, outputs=[("y", ("N", WIDTH))])


@pytest.mark.parametrize(
    ("model", "arguments", "kind", "said"),
    [
        (_CUT, {}, UnsupportedError, "its 10 scores become [-1, 2, 5]"),
        (_NONE, {}, UnsupportedError, "y: -> y (Tanh) is not a layer"),
        (_NONE, {"at": "nothing"}, UsageError, "no tensor 'nothing'"),
        (_NONE, {"output": "z"}, UsageError, "no output 'z'"),
        (_NONE, {"output": "y", "at": "y"}, UsageError, "both"),
        (FORMS["with a label"][0], {"at": "label"}, UsageError, "holds no floats"),
    ],
)
def test_what_cannot_be_done_says_why(
    model: onnx.ModelProto, arguments: dict, kind: type[OdtcError], said: str
) -> None:
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    with pytest.raises(kind) as caught:
        put_head(copy, NEW, **arguments)
    assert said in str(caught.value)
    assert caught.value.hint or caught.value.where
