"""The peers beside PyTorch and onnxruntime: they agree with odtc, or say what they lack."""

import os

import pytest
from onnx import helper

from benchmarks.step_time.cases import case_of
from benchmarks.step_time.compare import compare
from benchmarks.step_time.engines import ENGINES
from odtc.comparison.peers.mnn_training import MnnTrainer
from odtc.comparison.peers.onnx_edits import without_dropout
from odtc.comparison.peers.quiet import written_to

SLOW = [
    ("lenet", "TVM"),
    ("lenet", "torch.compile"),
    ("squeezenet", "MNN"),
    ("squeezenet", "TVM"),
]


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("lenet", "MNN"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW),
    ],
)
def test_its_losses_are_those_of_odtc(name, peer, tmp_path):
    engines = {each: ENGINES[each] for each in ("odtc", peer)}
    timings = compare(case_of(name, 2), engines, 1, tmp_path).timings
    assert [timing.skipped for timing in timings] == ["", ""]


def classifier(*operators):
    """A graph of operators in a chain."""
    names = [f"v{index}" for index in range(len(operators) + 1)]
    nodes = [
        helper.make_node(operator, [before], [after])
        for operator, before, after in zip(operators, names, names[1:], strict=False)
    ]
    values = [helper.make_empty_tensor_value_info(name) for name in (names[0], names[-1])]
    return helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]))


def test_mnn_has_no_gradient_of_a_pooling_inside(tmp_path):
    model = classifier("Relu", "GlobalAveragePool", "Flatten", "Relu")
    with pytest.raises(ValueError, match="no gradient of a GlobalAveragePool"):
        MnnTrainer(model, tmp_path, lr=0.1, threads=1)


@pytest.mark.parametrize("peer", ["MNN", "TVM"])
def test_a_model_without_a_module_is_not_tried(peer, tmp_path):
    with pytest.raises(RuntimeError, match="PyTorch's exports"):
        ENGINES[peer](case_of("digits", 2), tmp_path)


def test_dropout_becomes_the_identity():
    model = classifier("Relu", "Dropout", "Relu")
    kept = [node.op_type for node in without_dropout(model).graph.node]
    assert kept == ["Relu", "Identity", "Relu"]
    assert [node.op_type for node in model.graph.node] == ["Relu", "Dropout", "Relu"]


def test_descriptors_are_given_back(tmp_path, capfd):
    with written_to(tmp_path / "log", 1, 2):
        os.write(1, b"a library speaks")
    os.write(1, b"heard")
    assert (tmp_path / "log").read_text() == "a library speaks"
    assert capfd.readouterr().out == "heard"
