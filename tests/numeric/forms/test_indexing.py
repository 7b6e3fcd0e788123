"""Reading and writing by indices that are computed or fed, which no constant folding removes."""

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.backends.kernels.gather.take import CHUNK
from tests.fast import examples
from tests.numeric.conftest import node_model, relative_error, weight

RNG = np.random.default_rng(2)


def embedding_model(ids: tuple[int, ...], table: tuple[int, ...], axis: int = 0) -> onnx.ModelProto:
    """`Gather(table, ids) -> flatten -> logits`, of fed ids and a trained table."""
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["y"], "embed", axis=axis),
            helper.make_node("Reshape", ["y", "row"], ["logits"], "row"),
        ],
        "embedding",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ids)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, None])],
        [
            numpy_helper.from_array(weight(*table), "table"),
            numpy_helper.from_array(np.array([1, -1]), "row"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# One row of scores for all that is fed: it is a step of one whole batch.
WHOLE = {"ids": None}


def check_embedding(saved, ids: np.ndarray, table: tuple[int, ...], axis: int) -> None:
    """One step against PyTorch's own indexing."""
    model = saved(embedding_model(ids.shape, table, axis))
    trainer = odtc.compile(model, batch_axis=WHOLE).trainer()
    before = trainer.parameters()["table"]
    loss = trainer.step(ids, np.array([1]), lr=1.0)
    reference = torch.tensor(before, requires_grad=True)
    places = torch.from_numpy(np.where(ids < 0, ids + table[axis], ids)).flatten()
    logits = reference.index_select(axis, places).reshape(1, -1)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([1]))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    found, wanted = before - trainer.parameters()["table"], reference.grad.numpy()
    # A difference of two tables has their precision, which is coarse for a gradient of about zero.
    assert relative_error(found, wanted) < 2e-5 or np.abs(found - wanted).max() < 1e-6


@settings(max_examples=examples(6), deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 2, 3, CHUNK, CHUNK + 5]), min_size=1, max_size=3),
    st.data(),
)
def test_embedding(saved_many, listed: list[int], table: list[int], data) -> None:
    """Fed indices of any rank, from both ends, into any axis, some of them often."""
    axis = data.draw(st.integers(0, len(table) - 1))
    size = table[axis]
    ids = np.random.default_rng(len(listed)).integers(-size, size, listed)
    if np.prod(listed) * np.prod(table) // size < 2:
        ids = np.concatenate([ids, ids])
    check_embedding(saved_many, ids, tuple(table), axis)


def test_a_large_embedding_is_summed_by_several_threads(saved) -> None:
    ids = RNG.integers(-300, 300, (4, 50))
    check_embedding(saved, ids, (300, 3 * CHUNK + 7), 0)


def test_the_sum_is_the_same_from_run_to_run(saved) -> None:
    ids = RNG.integers(0, 5, (8, 40))
    model = saved(embedding_model(ids.shape, (5, 4 * CHUNK)))
    artifact = odtc.compile(model, batch_axis=WHOLE)
    tables = []
    for _ in range(3):
        trainer = artifact.trainer()
        trainer.step(ids, np.array([3]), lr=1.0)
        tables.append(trainer.parameters()["table"])
    assert (tables[0] == tables[1]).all()
    assert (tables[0] == tables[2]).all()


@pytest.mark.parametrize("opset", [9, 10])
def test_scatter_is_scatter_elements(saved, opset: int) -> None:
    """ONNX's reference implementation has no Scatter any more."""
    indices, updates = np.array([[1, -1, 0], [3, 2, 1]]), weight(2, 3)
    model = node_model(
        "Scatter", (4, 3), constants={"i": indices}, parameters={"w": updates}, opset=opset
    )
    trainer = odtc.compile(saved(model)).trainer()
    before = trainer.parameters()
    x, y = RNG.standard_normal((4, 3)).astype(np.float32), np.array([0, 1, 2, 0])
    trainer.step(x, y, lr=1.0)
    p, w = (torch.tensor(before[name], requires_grad=True) for name in "pw")
    logits = (torch.tensor(x) + p).scatter(0, torch.tensor(indices % 4), w)
    torch.nn.functional.cross_entropy(logits, torch.tensor(y)).backward()
    for name, reference in (("p", p), ("w", w)):
        gradient = before[name] - trainer.parameters()[name]
        assert relative_error(gradient, reference.grad.numpy()) < 2e-5
