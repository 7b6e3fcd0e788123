"""The trained parameters follow from the graph's structure: on drawn chains of layers."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from odtc.core.errors import ModelError, UsageError
from odtc.core.specs import Block, Role, TensorSpec
from odtc.frontend.graph import Graph
from odtc.frontend.trained.choices import heaviest, read_choice
from odtc.frontend.trained.selection import select
from odtc.frontend.weights.finite import not_finite, require_finite


@dataclass
class Chain:
    """A graph that grows by one layer at a time, and what is known of it by construction."""

    width: int = 4
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    biases: set[str] = field(default_factory=set)
    statistics: set[str] = field(default_factory=set)
    # The parameters of each layer, with what follows it.
    layers: list[set[str]] = field(default_factory=lambda: [set()])

    def parameter(self, *shape: int) -> str:
        # Names say nothing of what a parameter is.
        name = f"t{len(self.parameters)}"
        rng = np.random.default_rng(len(self.parameters))
        self.parameters[name] = rng.standard_normal(shape).astype(np.float32)
        self.layers[-1].add(name)
        return name

    def emit(self, op_type: str, *inputs: str, **attributes: object) -> str:
        output = f"h{len(self.nodes) + 1}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def bias(self) -> str:
        name = self.parameter(self.width)
        self.biases.add(name)
        return name

    def add(self, kind: str) -> None:
        data = f"h{len(self.nodes)}"
        if kind in ("Relu", "BatchNormalization", "Add"):
            getattr(self, f"_{kind.lower()}")(data)
            return
        self.layers.append(set())
        getattr(self, f"_{kind.lower()}")(data)

    def _relu(self, data: str) -> None:
        self.emit("Relu", data)

    def _add(self, data: str) -> None:
        """A sum after a Relu is no layer's bias."""
        self.emit("Add", self.emit("Relu", data), self.parameter(self.width))

    def _batchnormalization(self, data: str) -> None:
        names = [self.parameter(self.width) for _ in range(4)]
        self.statistics.update(names[2:])
        self.layers[-1].difference_update(names[2:])
        self.emit("BatchNormalization", data, *names)

    def _conv(self, data: str) -> None:
        self.emit("Conv", data, self.parameter(self.width, self.width, 3, 3), self.bias())

    def _gemm(self, data: str) -> None:
        self.emit("Gemm", data, self.parameter(self.width, self.width), self.bias(), transB=1)

    def _matmul(self, data: str) -> None:
        product = self.emit("MatMul", data, self.parameter(self.width, self.width))
        self.emit("Add", self.bias(), product)

    def _transposed(self, data: str) -> None:
        turned = self.emit("Transpose", self.parameter(self.width, self.width), perm=[1, 0])
        self.emit("MatMul", data, turned)

    def graph(self) -> Graph:
        return Graph(
            nodes=self.nodes,
            inputs=(TensorSpec("h0", (1, self.width)),),
            parameters=self.parameters,
            constants={},
            outputs=[self.nodes[-1].output[0]],
            opset=17,
        )


KINDS = ("Conv", "Gemm", "MatMul", "Transposed", "Relu", "BatchNormalization", "Add")


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    chain = Chain()
    for kind in ["Conv", *draw(st.lists(st.sampled_from(KINDS), max_size=6)), "Gemm"]:
        chain.add(kind)
    return chain


@given(chains())
def test_biases_are_found_by_structure(chain: Chain) -> None:
    assert select(chain.graph(), ["bias"]).trained.keys() == chain.biases


@given(chains(), st.data())
def test_last_layers_come_with_what_follows_them(chain: Chain, data: st.DataObject) -> None:
    count = len(chain.layers) - 1
    k = data.draw(st.integers(1, count))
    expected = set().union(*chain.layers[-k:])
    assert select(chain.graph(), [f"last{{k={k}}}"]).trained.keys() == expected
    with pytest.raises(UsageError, match=f"has {count} layers"):
        select(chain.graph(), [f"last{{k={count + 1}}}"])


@given(chains(), st.lists(st.sampled_from(["*", "t?", "t1*", "t[02468]", "t0"]), min_size=1))
def test_globs_add_up_and_statistics_match_none(chain: Chain, globs: list[str]) -> None:
    trainable = chain.parameters.keys() - chain.statistics
    hits = [{n for n in trainable if fnmatchcase(n, glob)} for glob in globs]
    if not all(hits):
        with pytest.raises(UsageError, match="no trainable parameter matches"):
            select(chain.graph(), globs)
        return
    selection = select(chain.graph(), globs)
    assert selection.trained.keys() == set().union(*hits)
    roles = {item.spec.name: item.role for item in selection.arguments(chain.graph())}
    assert {n for n, role in roles.items() if role is Role.PARAMETER} == set().union(*hits)
    assert {n for n, role in roles.items() if role is Role.STATISTIC} == chain.statistics


@given(chains())
def test_what_is_frozen_is_not_trained(chain: Chain) -> None:
    graph = chain.graph()
    everything = select(graph, ["*"]).trained.keys()
    assert select(graph, ["*"], ["bias"]).trained.keys() == everything - chain.biases
    with pytest.raises(UsageError, match="nothing is left"):
        select(graph, ["bias"], ["*"])


@given(chains())
def test_statistics_stand_still_where_scale_and_shift_are_frozen(chain: Chain) -> None:
    norms = [node for node in chain.nodes if node.op_type == "BatchNormalization"]
    assert not select(chain.graph(), ["*"], freeze_batch_norm=True).still
    graph = chain.graph()
    assert select(graph, ["bias"], freeze_batch_norm=True).still == chain.statistics
    assert not graph.notes
    assert not select(graph, ["bias"]).still
    assert bool(graph.notes) == bool(norms)
    for node in norms:
        others = chain.statistics - set(node.input[3:5])
        for trained in node.input[1:3]:
            selection = select(graph, ["bias", trained], freeze_batch_norm=True)
            assert selection.still == others


@given(chains(), st.floats(0.01, 1.0))
def test_a_sread_choice_narrows_another(chain: Chain, share: float) -> None:
    texts = ["*", f"sparse{{channels={share}}}"]
    size = max(1, round(share * chain.width))
    for order in (texts, texts[::-1]):
        trained = select(chain.graph(), order).trained
        assert trained.keys() == chain.parameters.keys() - chain.statistics
        for name, block in trained.items():
            is_weight = chain.parameters[name].ndim > 1
            assert (block is None) != (is_weight and size < chain.width)
            assert block is None or block.size == size


def test_axis_of_the_output_channels() -> None:
    chain = Chain()
    for kind in ("Conv", "Gemm", "MatMul", "Transposed"):
        chain.add(kind)
    blocks = [block for block in select(chain.graph(), ["sparse"]).trained.values() if block]
    assert [block.axis for block in blocks] == [0, 0, 1, 0]


@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_the_heaviest_block(groups: int, group: int, data: st.DataObject) -> None:
    channels = groups * group
    sizes = [*range(1, group), *(n * group for n in range(1, groups + 1))]
    size = data.draw(st.sampled_from(sizes))
    norms = data.draw(st.lists(st.integers(0, 9), min_size=channels, max_size=channels))
    weight = np.zeros((2, channels), np.float32)
    weight[1] = norms
    start = heaviest(weight, 1, size, group)
    legal = {}
    for first in range(channels - size + 1):
        touched = {channel // group for channel in range(first, first + size)}
        if len(touched) * group == size or len(touched) == 1:
            legal[first] = sum(n * n for n in norms[first : first + size])
    assert legal[start] == max(legal.values())


def test_a_glob_that_reads_like_a_choice() -> None:
    chain = Chain()
    chain.add("Gemm")
    chain.parameters["bias"] = chain.parameters.pop("t0")
    chain.nodes[0].input[1] = "bias"
    assert list(select(chain.graph(), ["bias"]).trained) == ["t1"]
    assert list(select(chain.graph(), ["[b]ias"]).trained) == ["bias"]


def test_choices_are_read_with_their_types() -> None:
    assert read_choice("last") == read_choice("last{k=1}")
    sparse = read_choice("sparse{layers=a.*,channels=0.5}")
    assert (sparse.layers, sparse.channels) == ("a.*", 0.5)  # type: ignore[attr-defined]


def test_shape_of_a_block() -> None:
    assert Block(1, 3, 2).shape_in((4, 6, 5)) == (4, 2, 5)


def test_what_is_not_finite_may_be_frozen_or_lie_outside_of_the_part_that_is_trained() -> None:
    value = np.ones((4, 6), np.float32)
    value[0, 1] = np.inf
    weights = {"w": value, "v": np.ones(3, np.float32)}
    broken = not_finite(weights)
    assert broken == {"w"}
    require_finite(weights, {"v": None}, broken)
    require_finite(weights, {"w": Block(1, 2, 3)}, broken)
    for part in (None, Block(1, 1, 2), Block(0, 0, 1)):
        with pytest.raises(ModelError, match="'w' are inf in the model"):
            require_finite(weights, {"w": part}, broken)
