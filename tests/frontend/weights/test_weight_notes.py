"""What is said of the rule's choice, and who goes before it: the user, and the file's own list."""

import json

import numpy as np
import pytest

from odtc.core.errors import ModelError, UsageError
from odtc.frontend.trained.selection import select
from tests.frontend.weights.test_weight_rule import CASES, ROW, W, draw, graph_of


def test_every_doubtful_tensor_is_noted_with_the_option_against_it() -> None:
    maker, nodes, shape, trained, still = CASES["image mean and deviation"]
    graph = graph_of(nodes, {**trained, **still}, shape=shape, maker=maker)
    assert graph.notes == [
        "mean: not trained: a term of a difference; --train mean trains it",
        "std: not trained: read by Div; --train std trains it",
    ]
    maker, nodes, shape, trained, _ = CASES["learned positions"]
    graph = graph_of(nodes, trained, shape=shape, maker=maker)
    assert graph.notes == [
        "pos_embed: trained, as a table that is added behind a layer; --freeze pos_embed freezes it"
    ]


def test_the_user_overrules_by_the_whole_name() -> None:
    maker, nodes, shape, trained, still = CASES["image mean and deviation"]
    tensors = {**trained, **still}
    graph = graph_of(nodes, tensors, shape=shape, maker=maker, promoted=["w", "mean"])
    assert select(graph, ["w", "mean"]).trained.keys() == {"w", "mean"}
    assert not any("mean" in note for note in graph.notes)
    graph = graph_of(nodes, tensors, shape=shape, maker=maker, promoted=["m*"])
    with pytest.raises(UsageError, match=r"no trainable parameter matches 'm\*'"):
        select(graph, ["m*"])
    assert select(graph, ["*"], ["mean"]).trained.keys() == {"w"}


def test_a_model_without_parameters_says_what_it_has_in_their_place() -> None:
    graph = graph_of("y = Mul (x, taps)", {"taps": draw(8)}, shape=ROW, maker="hand")
    with pytest.raises(UsageError, match="the model holds no weights that can be trained") as said:
        select(graph)
    assert "; --train NAME trains any" in str(said.value).split("it has taps (")[1]


def test_quantized_weights_are_told_of() -> None:
    """They are no float tensors: no option trains them, also where others are trained."""
    nodes = (
        "q, s, z = DynamicQuantizeLinear (x) h = MatMulInteger (q, bytes, z) y = Cast <to = 1> (h)"
    )
    tensors = {"bytes": np.ones((8, 8), np.int8)}
    graph = graph_of(nodes, tensors, shape=ROW, maker="hand")
    with pytest.raises(UsageError, match="the model holds no weights that can be trained") as said:
        select(graph)
    assert "bytes: frozen, not trained: their elements are integers of 8 bits or fewer" in str(
        said.value
    )
    assert "--lora trains adapters in addition to those that are dequantized" in str(said.value)
    assert "train the model that this one was quantized from" in str(said.value)
    graph = graph_of(
        f"{nodes} o = MatMul (y, u)", tensors | {"u": draw(8, 8)}, shape=ROW, maker="hand"
    )
    assert select(graph).trained.keys() == {"u"}
    assert any(note.startswith("bytes: frozen") for note in graph.notes)


def test_the_list_of_the_file_goes_before_the_rule() -> None:
    maker, nodes, shape, trained, still = CASES["image mean and deviation"]
    said = json.dumps({"parameters": ["mean"], "buffers": ["std"]})
    graph = graph_of(nodes, {**trained, **still}, shape=shape, maker=maker, said=said)
    assert graph.parameters.keys() == {"mean"}


@pytest.mark.parametrize("said", ["{", "[]", '{"parameters": "w", "buffers": []}', "{}"])
def test_a_damaged_list_is_refused(said: str) -> None:
    with pytest.raises(ModelError, match="parameters and buffers"):
        graph_of("y = MatMul (x, w)", {"w": W}, shape=ROW, maker="hand", said=said)
