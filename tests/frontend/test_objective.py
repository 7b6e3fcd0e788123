"""Losses meet a graph: what closes it, what is left out, what is evaluated."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import ModelError, UsageError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.losses.objective import Objective, join_losses
from odtc.frontend.losses.terms import Losses, terms_of


def model_of(nodes, outputs, x=("N", 6), opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.ones((6, 5), np.float32), name) for name in ("w", "v")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def closed_by(op_type: str, opset: int = 17, x=("N", 6), **attributes: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node(op_type, ["m"], ["y"], "end", **attributes),
    ]
    return model_of(nodes, ["y"], x, opset)


TWO_HEADS = model_of(
    [
        helper.make_node("MatMul", ["x", "w"], ["a"], "head_a"),
        helper.make_node("MatMul", ["x", "v"], ["b"], "head_b"),
        helper.make_node("Sub", ["a", "b"], ["c"], "difference"),
    ],
    ["a", "b", "c"],
)


def joined(model: onnx.ModelProto, losses: Losses) -> tuple[Graph, Objective]:
    graph = specialize(model, batch=2)
    return graph, join_losses(graph, terms_of(losses))


@pytest.mark.parametrize(
    ("closing", "loss"),
    [
        ("Softmax", "cross-entropy"),
        ("LogSoftmax", odtc.CrossEntropy(label_smoothing=0.1)),
        ("Sigmoid", "bce-with-logits"),
    ],
)
def test_what_the_loss_has_inside_is_dropped_and_said(closing: str, loss: Losses) -> None:
    graph, objective = joined(closed_by(closing), loss)
    assert graph.outputs == ["m"]
    assert objective.evaluated == (("y", 0),)
    assert any(f"end ({closing}) closes the model" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("closing", "loss"),
    [
        ("Softmax", "mse"),
        ("LogSoftmax", "nll"),
        ("LogSoftmax", "kl-div"),
        ("Sigmoid", "mse"),
        ("Sigmoid", "cross-entropy"),
        ("Softmax", "bce-with-logits"),
    ],
)
def test_what_the_loss_does_not_have_inside_stays(closing: str, loss: str) -> None:
    graph, _ = joined(closed_by(closing), loss)
    assert graph.outputs == ["y"]
    assert graph.nodes[-1].op_type == closing
    assert not graph.notes


@pytest.mark.parametrize(("opset", "axis"), [(17, -1), (17, 2), (11, 2)])
def test_a_softmax_along_another_axis_is_not_dropped(opset: int, axis: int) -> None:
    model = closed_by("Softmax", opset, x=("N", 3, 6), axis=axis)
    with pytest.raises(ModelError, match="along axis 2; the loss is along axis 1") as failure:
        joined(model, "cross-entropy")
    assert "cross-entropy{axis=2}" in str(failure.value)
    assert joined(model, odtc.CrossEntropy(axis=-1))[0].outputs == ["m"]


def test_an_old_softmax_goes_along_all_axes_from_its_own_on() -> None:
    """Of [N, C, 1, 1] it is that along the classes; of [N, C, T] it is none of a loss."""
    assert joined(closed_by("Softmax", 11), "cross-entropy")[0].outputs == ["m"]
    with pytest.raises(ModelError, match="along axis 1, 2; the loss is along"):
        joined(closed_by("Softmax", 11, x=("N", 3, 6), axis=1), "cross-entropy")


def test_outputs_without_a_loss_are_left_out_and_said() -> None:
    graph, objective = joined(TWO_HEADS, "mse")
    assert graph.outputs == ["a"]
    assert [node.name for node in graph.nodes] == ["head_a"]
    assert graph.parameters.keys() == {"w"}
    assert graph.notes == ["outputs without a loss are left out: b, c"]
    graph, objective = joined(TWO_HEADS, {"b": "mse", "a": (0.5, "l1")})
    assert graph.outputs == ["b", "a"]
    assert objective.evaluated == (("b", 0), ("a", 1))
    assert [aim.weight for aim in objective.aims] == [1.0, 0.5]


def test_beside_a_loss_in_the_model_another_output_is_evaluated() -> None:
    graph, objective = joined(TWO_HEADS, {"c": "in-model"})
    assert graph.outputs == ["c", "a"]
    assert objective.evaluated == (("a", 1),)
    graph, objective = joined(closed_by("Abs"), "in-model")
    assert objective.evaluated == (("y", 0),)


@pytest.mark.parametrize("closing", ["Identity", "Softmax", "Sigmoid"])
def test_scores_are_no_loss(closing: str) -> None:
    with pytest.raises(ModelError, match=r"'y' \[2, 5\] holds scores of -> m") as failure:
        joined(closed_by(closing), "in-model")
    assert "cross-entropy" in str(failure.value.hint)
    biased = model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], "head"),
            helper.make_node("Add", ["m", "bias"], ["y"]),
            helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0),
        ],
        ["y", "loss"],
    )
    biased.graph.initializer.append(numpy_helper.from_array(np.ones(5, np.float32), "bias"))
    with pytest.raises(ModelError, match=r"hint: take loss=in-model; or use a loss") as failure:
        joined(biased, "in-model")
    assert joined(biased, {"loss": "in-model"})[0].outputs == ["loss", "y"]


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(UsageError, match="no output 'd'") as failure:
        joined(TWO_HEADS, {"a": "mse", "d": "mse"})
    assert failure.value.hint == "it has a, b, c"


def heads_of(*outputs: str, x: str = "x", weight: str = "w") -> onnx.ModelProto:
    """A model whose outputs are products of the input and a weight of these names."""
    model = model_of([helper.make_node("MatMul", [x, weight], [name]) for name in outputs], outputs)
    model.graph.input[0].name = x
    model.graph.initializer[0].name = weight
    return model


@pytest.mark.parametrize(
    ("model", "losses", "labels"),
    [
        (heads_of("y"), "mse", ["label"]),
        (heads_of("y", x="label"), "mse", ["label_of_y"]),
        (heads_of("y", weight="label"), "mse", ["label_of_y"]),
        (heads_of("y", x="label", weight="label_of_y"), "mse", ["label_of_y_2"]),
        (heads_of("y", "z", x="label"), None, ["y", "z"]),
    ],
)
def test_a_label_is_called_like_no_other_tensor(
    model: onnx.ModelProto, losses: Losses | None, labels: list[str]
) -> None:
    every = {output.name: "mse" for output in model.graph.output}
    graph, objective = joined(model, every if losses is None else losses)
    assert [aim.label for aim in objective.aims] == labels
    said = [note for note in graph.notes if "the label of the output" in note]
    assert said == [
        f"the label of the output 'y' is called {name!r}: 'label' is the name of another tensor"
        for name in labels
        if losses and name != "label"
    ]


def test_the_label_of_a_loss_in_the_model_is_no_note() -> None:
    model = heads_of("y", x="label")
    model.graph.node.append(helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, ()))
    graph, _ = joined(model, {"loss": "in-model"})
    assert not any("label of" in note for note in graph.notes)


def test_an_input_that_is_not_fed_leaves_the_label_its_name() -> None:
    """A model with a loss of its own, of which only the scores are trained by another one."""
    model = heads_of("y")
    model.graph.input.append(helper.make_tensor_value_info("label", TensorProto.FLOAT, ("N", 5)))
    model.graph.node.append(helper.make_node("Sub", ["y", "label"], ["apart"]))
    model.graph.output.append(helper.make_tensor_value_info("apart", TensorProto.FLOAT, None))
    _, objective = joined(model, "mse")
    assert [aim.label for aim in objective.aims] == ["label"]
