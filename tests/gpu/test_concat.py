"""Concatenation of more tensors than a launch may have."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

import odtc
from odtc.backends.gpu.concat import concat_kernel
from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.check_launches import launches_of, needs_of
from tests.gpu.on_device import KINDS, run_kernel

SIZES = [3, 1, 4, 1, 5, 9, 2]


def shapes(axis: int) -> list[tuple[int, ...]]:
    return [tuple(size if each == axis else 2 + each for each in range(3)) for size in SIZES]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("most", "launches"), [(1, 7), (3, 3), (7, 1)])
def test_values(kind: str, axis: int, most: int, launches: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(each).astype("float32") for each in shapes(axis)]
    kernel = concat_kernel(shapes(axis), axis, "float32", most)
    kernel = kernel.with_attr("global_symbol", "main")
    bound = BindLoops(64).run(tvm.IRModule({"main": kernel}))["main"]
    buffers = [needs_of(each).buffers for each in launches_of(bound.body)]
    assert len(buffers) == launches
    assert max(buffers) == most + 1
    expected = np.concatenate(arrays, axis)
    assert np.array_equal(run_kernel(kind, bound, arrays, expected.shape), expected)


def wide_model(branches: int, width: int = 4) -> onnx.ModelProto:
    """Branches that read one tensor, whose gradients are added up, and are joined to another."""
    rng = np.random.default_rng(1)
    nodes, weights = [], []

    def layer(source: str, name: str, rows: int) -> None:
        weight = (rng.standard_normal((rows, width)) / rows**0.5).astype("float32")
        weights.append(onnx.numpy_helper.from_array(weight, f"w-{name}"))
        nodes.append(helper.make_node("MatMul", [source, f"w-{name}"], [f"z-{name}"]))
        nodes.append(helper.make_node("Tanh", [f"z-{name}"], [name]))

    layer("x", "first", width)
    joined = [f"y{branch}" for branch in range(branches)]
    for name in joined:
        layer("first", name, width)
    nodes.append(helper.make_node("Concat", joined, ["all"], axis=1))
    layer("all", "last", width * branches)
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("last", TensorProto.FLOAT, ["n", width])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


def test_a_phones_schedule_takes_a_net_of_many(tmp_path: Path) -> None:
    """The check of launches refused both, as in DenseNet; and the losses are the CPU's."""
    onnx.save(wide_model(17), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", "android-vulkan", batch=8)
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 4)).astype("float32"), np.arange(8) % 4
    losses = []
    for target in ("host-vulkan{gpu=mali-g76}", "host-cpu"):
        trainer = odtc.compile(tmp_path / "m.onnx", target, batch=8).trainer()
        losses.append([trainer.step(x, y, lr=0.1) for _ in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]
