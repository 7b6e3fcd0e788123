"""Plain gradient descent changes the rows of a table that are read: the same bits, no gradient."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.backends.family import cpu
from odtc.backends.kernels.gather.take import CHUNK
from odtc.passes.rows.update_rows import UpdateRows
from tests.fast import examples
from tests.host import loaded
from tests.numeric.conftest import weight

STEPS = 3


def table_model(
    ids: Sequence[int], table: tuple[int, ...], *, axis: int = 0, twice: bool = False
) -> onnx.ModelProto:
    """`Gather(table, ids)` as logits; with `twice`, added to that of the same ids once more."""
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"], axis=axis)]
    if twice:
        nodes += [
            helper.make_node("Gather", ["table", "ids"], ["again"], axis=axis),
            helper.make_node("Mul", ["y", "again"], ["product"]),
        ]
    nodes.append(helper.make_node("Reshape", [nodes[-1].output[0], "row"], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ids)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, None])],
        [
            numpy_helper.from_array(weight(*table), "table"),
            numpy_helper.from_array(np.array([1, -1]), "row"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def calls_of(path: Path, model: onnx.ModelProto, **options) -> tuple[str, ...]:
    """The kernels that a step of a model calls."""
    onnx.save(model, path)
    return odtc.compile(path, **options).memory.plan.calls


def trained(path: Path, ids: np.ndarray, **options) -> tuple[np.ndarray, list[str]]:
    """The table after some steps, by two threads, and which kernels changed it."""
    artifact = odtc.compile(path, **options)
    trainer = artifact.trainer(threads=2)
    for _ in range(STEPS):
        trainer.step(ids, np.array([1]), lr=0.37)
    return trainer.parameters()["table"], list(artifact.memory.plan.calls)


@settings(max_examples=examples(6), deadline=None)
@given(
    st.integers(50, 400),
    st.sampled_from([1, 3, CHUNK, CHUNK + 5, 900]),
    st.integers(2, 49),
    st.integers(1, 400),
    st.integers(0, 1 << 16),
)
def test_no_bit_differs_from_the_gradient_of_the_whole_table(
    saved_many, rows: int, columns: int, count: int, different: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.integers(-rows, rows, (1, count)) % min(rows, different)
    ids[rng.random(ids.shape) < 0.3] -= rows
    path, update = saved_many(table_model(ids.shape, (rows, columns))), odtc.SGD()
    own, calls = trained(path, ids, optimizer=update)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UpdateRows, "run", lambda _, module: module)
        whole, others = trained(path, ids, optimizer=update)
    assert ("update_rows" in calls, "update_rows" in others) == (True, False)
    assert "take_gradient" in others
    assert (own == whole).all()


def test_what_is_read_often_is_summed_before_it_is_taken(tmp_path: Path) -> None:
    """Each adjoint alone would be lost beside the weight; their sum is not."""
    kernel = cpu.take_update(5, 1, 64, "int64", 1.0)
    table, adjoint = np.zeros((5, 1), np.float32), np.full((64, 1), 2.0**-24, np.float32)
    table[3] = 1.0
    run_kernel(kernel, table, adjoint, np.full(64, 3), *np.float32([1, 0]))
    assert table[:, 0].tolist() == [0, 0, 0, 1 - 64 * 2.0**-24, 0]


def run_kernel(kernel, *arrays: np.ndarray) -> None:
    """Runs a kernel on arrays, the first of which it changes."""
    built = loaded(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}))
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    built["main"](*tensors)
    arrays[0][...] = tensors[0].numpy()


@pytest.mark.parametrize(
    "update",
    [
        odtc.SGD(momentum=0.9),
        odtc.SGD(weight_decay=0.1),
        odtc.AdamW(),
        odtc.Update(odtc.SGD(), clip_value=1.0),
        odtc.Update(odtc.SGD(), clip_norm=1.0),
        odtc.Update(odtc.SGD(), accumulate=2),
        odtc.Update(odtc.SGD(), ema=0.9),
        odtc.Update(odtc.SGD(), loss_scale="dynamic"),
        odtc.Update(odtc.SGD(), [odtc.Group("table", {"momentum": 0.9})]),
    ],
    ids=str,
)
def test_other_updates_move_all_rows(update, tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "m.onnx", table_model([1, 9], (40, 3)), optimizer=update)
    assert "take_gradient" in calls
    assert "update_rows" not in calls


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (table_model([1, 9], (9, 3)), "as many rows as indices"),
        (table_model([1, 9], (3, 40), axis=1), "columns are read"),
        (table_model([1, 9], (40, 3), twice=True), "the sum of two gradients"),
        (table_model([1, 9], (40,)), "no rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_gradients_stay(model: onnx.ModelProto, why: str, tmp_path: Path) -> None:
    # Where columns are read the samples end up among the classes.
    axes = {model.graph.input[0].name: None}
    calls = calls_of(tmp_path / "m.onnx", model, batch_axis=axes)
    assert "update_rows" not in calls, why


def test_a_group_has_its_factor(tmp_path: Path) -> None:
    ids, path = np.array([[7, 7, 30]]), tmp_path / "m.onnx"
    onnx.save(table_model(ids.shape, (40, 3)), path)
    group = odtc.Group("table", lr_factor=0.5)
    moved = []
    for update in (odtc.Update(odtc.SGD()), odtc.Update(odtc.SGD(), [group])):
        artifact = odtc.compile(path, optimizer=update)
        trainer = artifact.trainer()
        before = trainer.parameters()["table"]
        trainer.step(ids, np.array([1]), lr=0.1)
        moved.append(before - trainer.parameters()["table"])
        assert "update_rows" in artifact.memory.plan.calls
    np.testing.assert_allclose(moved[1], moved[0] / 2, rtol=1e-4, atol=1e-8)


def test_a_table_has_no_gradient_in_the_arena(tmp_path: Path) -> None:
    rows, columns = 4096, 256
    onnx.save(table_model([1, 9], (rows, columns)), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx")
    assert artifact.manifest.sizes.train_step < 0.1 * rows * columns * 4


def test_gpus_keep_the_gradient(tmp_path: Path) -> None:
    calls = calls_of(tmp_path / "m.onnx", table_model([1, 9], (40, 3)), target="host-opencl")
    assert "take_gradient" in calls
