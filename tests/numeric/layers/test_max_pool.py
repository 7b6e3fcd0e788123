"""Max pooling in training: what it keeps, and the rectifiers that become a part of it."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import assume, given
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.max_pool import max_pool2d, max_pool2d_backward
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.trained.selection import select
from odtc.frontend.training import TRAIN_STEP, build_training_graph
from tests.numeric.conftest import node_model, relative_error, text_model, weight
from tests.numeric.forms.test_windows import DRAWN, check, geometries

IMAGE = (2, 3, 8, 6)
POOL = "MaxPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]>"
# Each with the number of rectifiers that are left in the step.
GRAPHS = {
    "behind a rectifier": (f"r = Relu (h) y = {POOL} (r)", 0),
    "behind two of them": (f"q = Relu (h) r = Relu (q) y = {POOL} (r)", 1),
    "behind parts": (
        f"n = Neg (h) r = Relu (h) s = Relu (n) c = Concat <axis = 1> (r, s) y = {POOL} (c)",
        0,
    ),
    "behind rows": (
        f"n = Neg (h) r = Relu (h) s = Relu (n) c = Concat <axis = 2> (r, s) y = {POOL} (c)",
        0,
    ),
    "behind a part that is not rectified": (
        f"r = Relu (h) c = Concat <axis = 1> (r, h) y = {POOL} (c)",
        1,
    ),
    "behind parts of parts": (
        f"n = Neg (h) r = Relu (h) s = Relu (n) t = Exp (n) u = Relu (t) "
        f"c = Concat <axis = 1> (r, s) d = Concat <axis = 1> (c, u) y = {POOL} (d)",
        0,
    ),
    "beside another reader": (
        f"r = Relu (h) q = {POOL} (r) a = Flatten (q) b = Flatten (r) y = Concat <axis = 1> (a, b)",
        1,
    ),
    "beside another pooling": (f"r = Relu (h) a = {POOL} (r) b = {POOL} (r) y = Add (a, b)", 1),
}


def operators(model: onnx.ModelProto, name: str, train: tuple[str, ...] = ("*",)) -> Counter[str]:
    """The Relax operators of a function of the training graph."""
    graph = specialize(model)
    objective = join_losses(graph, terms_of("cross-entropy"))
    selection = select(graph, train)
    normalize(graph)
    module = build_training_graph(graph, objective, as_update(odtc.SGD()), selection).module
    found: Counter[str] = Counter()
    relax.analysis.post_order_visit(
        relax.transform.DeadCodeElimination()(module)[name],
        lambda each: found.update([operator_of(each)]),
    )
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_values_and_gradients(name: str, tmp_path: Path) -> None:
    nodes, rectifiers = GRAPHS[name]
    model = text_model(nodes, IMAGE)
    check(model, tmp_path)
    step, evaluate = (operators(model, each) for each in (TRAIN_STEP, "evaluate"))
    assert step["relax.nn.relu"] == rectifiers
    assert step[max_pool2d.name] == step[max_pool2d_backward.name] == nodes.count("MaxPool")
    assert step["relax.nn.max_pool2d"] == 0
    assert evaluate["relax.nn.relu"] == nodes.count("Relu")
    assert evaluate[max_pool2d.name] == 0


@DRAWN
@given(geometry=geometries())
def test_drawn_windows_behind_a_rectifier(geometry, tmp_path_factory) -> None:
    image, window = geometry
    assume(all(size > 1 for size in image))
    model = node_model("MaxPool", (2, 3, *image), before="Relu", opset=19, **window)
    check(model, tmp_path_factory.mktemp("case"))
    assert operators(model, TRAIN_STEP)["relax.nn.relu"] == 0


@pytest.mark.parametrize("shift", [0, -2])
def test_ties_and_windows_without_a_positive_element(shift: int, saved) -> None:
    """Exact zeros pass nothing back, and of equal elements the first one gets the gradient."""
    model = text_model(GRAPHS["behind a rectifier"][0], IMAGE)
    zeros = np.zeros((1, *IMAGE[1:]), np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(zeros, "p"))
    x = np.random.default_rng(3).integers(-1, 2, IMAGE).astype(np.float32) + np.float32(shift)
    x[:, 0] = -1
    y = np.array([1, 5])
    trainer, reference = (
        odtc.compile(saved(model)).trainer(),
        TorchTrainer(model, lr=1.0, dtype=torch.float64),
    )
    trainer.step(x, y, lr=1.0)
    reference.step(x, y)
    np.testing.assert_allclose(trainer.parameters()["p"], reference.parameters()["p"], atol=1e-6)
    assert not trainer.parameters()["p"][0, 0].any()


def test_a_pooling_in_front_of_what_is_trained_keeps_nothing() -> None:
    nodes = f"q = {POOL} (h) f = Flatten (q) y = MatMul (f, w)"
    model = text_model(nodes, IMAGE, parameters={"w": weight(36, 4)})
    found = operators(model, TRAIN_STEP, ("w",))
    assert found["relax.nn.max_pool2d"] == 1
    assert found[max_pool2d.name] == 0


def convolutions(precision: str, saved) -> odtc.Artifact:
    """Convolution, rectifier, pooling, convolution: the plan is the result of the first one."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["q"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Conv", ["q", "w"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["g"]),
        helper.make_node("Flatten", ["g"], ["logits"]),
    ]
    weights = {"v": weight(16, 3, 1, 1), "w": weight(10, 16, 1, 1)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3, 64, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [4, 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    path = saved(helper.make_model(graph, opset_imports=opset, ir_version=8))
    return odtc.compile(path, precision=precision)


def test_what_is_pooled_is_not_kept(saved) -> None:
    image = 4 * 16 * 64 * 64 * 4
    plan = convolutions("float32", saved).manifest.sizes.train_step
    # What is pooled, or later its gradient, but not both; and what kernels stage for themselves.
    assert image < plan < 1.5 * image


def test_numbers_stay_integers_in_mixed_precision(saved) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 64, 64)).astype(np.float32)
    y = np.arange(4)
    changes = []
    for precision in ("float32", "mixed"):
        trainer = convolutions(precision, saved).trainer()
        before = trainer.parameters()["v"]
        trainer.step(x, y, lr=1.0)
        changes.append(trainer.parameters()["v"] - before)
    assert relative_error(changes[1], changes[0]) < 5e-3
