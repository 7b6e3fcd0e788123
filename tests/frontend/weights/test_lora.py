"""The graph with adapters computes what the graph with merged weights does, over drawn layers."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from odtc.core.adapters import from_peft, merge_adapters, to_peft
from odtc.core.errors import OdtcError, UnsupportedError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.trained.lora import LoRA, adapt
from odtc.frontend.trained.selection import Selection

Case = tuple[onnx.ModelProto, np.ndarray]


def model_of(
    nodes: list[onnx.NodeProto], x: np.ndarray, weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def gemm(draw: st.DrawFn) -> Case:
    rows, inner, outer, turned = draw(st.tuples(*[st.integers(2, 5)] * 3, st.booleans()))
    attributes: dict[str, Any] = {"transB": int(turned), "alpha": draw(st.sampled_from([1.0, 0.5]))}
    weights = {"w": normal(*((outer, inner) if turned else (inner, outer))), "b": normal(outer)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], **attributes)]
    return model_of(nodes, x := normal(rows, inner, seed=1), weights), x


@st.composite
def matmul(draw: st.DrawFn) -> Case:
    *lead, inner, outer = draw(st.lists(st.integers(2, 5), min_size=3, max_size=5))
    turned, twice = draw(st.booleans()), draw(st.booleans())
    if twice:
        outer = inner
    weights = {"w": normal(*((outer, inner) if turned else (inner, outer)))}
    weight = "wt" if turned else "w"
    nodes = [helper.make_node("Transpose", ["w"], ["wt"])] if turned else []
    nodes += [helper.make_node("MatMul", ["x", weight], ["h" if twice else "y"])]
    nodes += [helper.make_node("MatMul", ["h", weight], ["y"])] if twice else []
    return model_of(nodes, x := normal(*lead, inner, seed=1), weights), x


@st.composite
def conv(draw: st.DrawFn) -> Case:
    channels, outer, kernel = draw(st.tuples(*[st.integers(2, 4)] * 2, st.integers(1, 3)))
    rank = draw(st.integers(1, 2))
    attributes: dict[str, Any] = {
        "strides": [draw(st.integers(1, 2))] * rank,
        "dilations": [1] * rank,
    }
    if draw(st.booleans()):
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    else:
        attributes["pads"] = draw(st.lists(st.integers(0, 1), min_size=2 * rank, max_size=2 * rank))
    weights = {"w": normal(outer, channels, *[kernel] * rank), "b": normal(outer)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)]
    return model_of(nodes, x := normal(2, channels, *[6] * rank, seed=1), weights), x


@st.composite
def embedding(draw: st.DrawFn) -> Case:
    words, width = draw(st.tuples(*[st.integers(2, 6)] * 2))
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    nodes = [helper.make_node("Gather", ["w", "x"], ["y"])]
    x = np.random.default_rng(1).integers(-words, words, shape)
    return model_of(nodes, x, {"w": normal(words, width)}), x


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)[0]


@settings(max_examples=80, deadline=None)
@given(
    st.one_of(gemm(), matmul(), conv(), embedding()),
    st.integers(1, 2),
    st.sampled_from([1.0, 3.0]),
)
def test_adapted_is_merged(case: Case, rank: int, alpha: float) -> None:
    model, x = case
    graph = specialize(model)
    lora = LoRA(rank=rank, alpha=alpha, seed=3)
    selection, adapters = adapt(graph, lora, Selection({"b": None}))
    added = graph.parameters.keys() - {"w", "b"}
    assert len(added) == 2
    assert selection.trained.keys() == added | {"b"}
    feeds = {"x": x, **graph.parameters}
    plain = run(model, {"x": x})
    # At first the adapter adds nothing.
    np.testing.assert_allclose(run(graph.to_model(), feeds), plain, rtol=1e-5, atol=1e-5)

    values = {n: v if n in "wb" else normal(*v.shape, seed=5) for n, v in graph.parameters.items()}
    merged = merge_adapters(values, adapters)
    assert merged.keys() == graph.parameters.keys() - added
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(merged[tensor.name], tensor.name))
    expected = run(model, {"x": x})
    result = run(graph.to_model(), {"x": x, **values})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(expected, plain)


def test_first_values() -> None:
    """As PEFT: A within 1 / sqrt(fan-in) and B zero; of an embedding A zero and B normal."""
    nodes = [
        helper.make_node("Gather", ["words.weight", "x"], ["h"]),
        helper.make_node("Gemm", ["h", "fc.weight"], ["y"], transB=1),
    ]
    weights = {"words.weight": normal(500, 400), "fc.weight": normal(300, 400)}
    graphs = []
    for seed in (0, 0, 1):
        model = model_of(nodes, np.zeros(4, np.int64), weights)
        graphs.append(specialize(model))
        adapt(graphs[-1], LoRA(rank=100, seed=seed), Selection({}))
    first = graphs[0].parameters
    down, up = first["fc.lora_A.weight"], first["fc.lora_B.weight"]
    assert (down.shape, up.shape) == ((400, 100), (100, 300))
    assert 0.99 / 20 < np.abs(down).max() <= 1 / 20
    assert abs(down.mean()) < 1e-3
    assert not up.any()
    assert not first["words.lora_embedding_A"].any()
    assert abs(first["words.lora_embedding_B"].std() - 1) < 0.01
    names = [name for name in first if "lora" in name]
    assert all(np.array_equal(graphs[1].parameters[n], first[n]) for n in names)
    assert not np.array_equal(graphs[2].parameters["fc.lora_A.weight"], down)
    assert to_peft("fc.lora_A.weight", down)[1].shape == (100, 400)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_peft_form_is_read_back(shape: list[int]) -> None:
    value = normal(*shape)
    name, back = from_peft(*to_peft("a.lora_A.weight", value))
    assert name == "a.lora_A.weight"
    assert np.array_equal(back, value)


GROUPED = helper.make_node("Conv", ["x", "w"], ["y"], "conv", group=2)
REFUSED = {
    "groups": ([GROUPED], normal(1, 4, 5, 5), normal(4, 2, 3, 3)),
    "input transposed": (
        [helper.make_node("Gemm", ["x", "w"], ["y"], "fc", transA=1)],
        *(normal(4, 2), normal(4, 3)),
    ),
    "its rank is 3": ([helper.make_node("MatMul", ["x", "w"], ["y"])], *[normal(2, 3, 3)] * 2),
    "another axis": (
        [helper.make_node("Gather", ["w", "x"], ["y"], axis=1)],
        *(np.zeros(3, np.int64), normal(4, 4)),
    ),
    "only weights of": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"])],
        *(normal(1, 4, 5, 5), normal(4, 2, 3, 3)),
    ),
    "in another way": (
        [
            helper.make_node("Gather", ["w", "x"], ["h"]),
            helper.make_node("Gemm", ["h", "w"], ["y"], transB=1),
        ],
        *(np.zeros(3, np.int64), normal(4, 4)),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    nodes, x, weight = REFUSED[reason]
    graph = graph_of(nodes, x, weight)
    before = graph.to_model()
    with pytest.raises(UnsupportedError, match=reason):
        adapt(graph, LoRA(rank=1), Selection({}))
    assert graph.to_model() == before


def test_a_tied_head_has_no_adapter_and_is_refused_where_it_is_named() -> None:
    """As of PEFT's `all-linear`: merged, an adapter of the head would change the embedding."""
    nodes = [
        helper.make_node("Gather", ["words", "x"], ["h"]),
        helper.make_node("MatMul", ["h", "fc"], ["i"]),
        helper.make_node("Transpose", ["words"], ["head"]),
        helper.make_node("MatMul", ["i", "head"], ["y"]),
    ]
    model = model_of(nodes, np.zeros(3, np.int64), {"words": normal(6, 4), "fc": normal(4, 4)})
    graph = specialize(model)
    _, adapters = adapt(graph, LoRA(rank=2), Selection({}))
    assert [adapter.weight for adapter in adapters] == ["fc"]
    (note,) = (note for note in graph.notes if note.startswith("LoRA"))
    assert note == (
        "LoRA: no adapter for 'words': it is read in several ways (Gather, MatMul), as "
        "an embedding that is also the head"
    )
    with pytest.raises(UnsupportedError, match="in another way"):
        adapt(specialize(model), LoRA(rank=2, targets="fc|words"), Selection({}))


def test_names_that_are_taken() -> None:
    graph = graph_of([helper.make_node("MatMul", ["x", "w"], ["y"])], normal(2, 3), normal(3, 3))
    adapt(graph, LoRA(rank=1), Selection({}))
    with pytest.raises(OdtcError, match="already"):
        adapt(graph, LoRA(rank=1, targets="w"), Selection({}))


def graph_of(nodes: list[onnx.NodeProto], x: np.ndarray, weight: np.ndarray) -> Graph:
    return specialize(model_of(nodes, x, {"w": weight}))
