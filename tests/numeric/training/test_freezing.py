"""Frozen parameters stay as they are, and cost no backward kernels and no gradient memory."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import tvm
from torch import nn
from tvm import relax

import odtc
from odtc.core.artifact.memory_plan import Kind
from odtc.core.errors import UnsupportedError
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.trained.selection import select
from odtc.frontend.training import build_training_graph
from tests.numeric.conftest import node_model, relative_error
from tests.numeric.layers.exported import OPTIMIZER, ConvNet, exported, follow

PRODUCTS = (
    "relax.matmul",
    "relax.nn.conv2d",
    "relax.nn.conv2d_transpose",
    grouped_weight_gradient.name,
)
LAYERS = 6


@pytest.fixture(scope="module")
def convnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("convnet") / "model.onnx"
    exported(ConvNet, path)
    return path


def training_module(path: Path, train: Sequence[str]) -> tvm.IRModule:
    graph = specialize(load_model(path), batch=16)
    objective = join_losses(graph, terms_of("cross-entropy"))
    selection = select(graph, train, freeze_batch_norm=True)
    normalize(graph)
    module = build_training_graph(graph, objective, as_update(OPTIMIZER), selection).module
    return relax.transform.DeadCodeElimination()(module)


def products(function: relax.Function) -> list[relax.Call]:
    """The calls that multiply matrices or convolve."""
    found = []

    def visit(expression: relax.Expr) -> None:
        if operator_of(expression) in PRODUCTS:
            found.append(expression)

    relax.analysis.post_order_visit(function, visit)
    return found


def multiply_adds(call: relax.Call) -> int:
    """Multiplications of a product; those of a transposed convolution are its data's."""
    left, right, result = ([int(n) for n in e.ty.shape] for e in (*call.args, call))
    if call.op.name == "relax.matmul":
        return math.prod(result) * left[-1]
    if call.op.name == grouped_weight_gradient.name:
        return math.prod(result) * right[0] * math.prod(right[2:])
    if call.op.name == "relax.nn.conv2d_transpose":
        return math.prod(left) * math.prod(right[1:])
    outputs = right[str(call.attrs.kernel_layout).index("O")]
    return math.prod(result) * math.prod(right) // outputs


# Choice to the number of products that its backward pass has: a weight's gradient is one, and one
# passes the gradient on to the layer before, where there is something to train.
BACKWARD = {
    "*": 2 * LAYERS - 1,
    "sparse": 2 * LAYERS - 1,
    "bias": LAYERS - 1,
    "last{k=3}": 5,
    "head.*": 1,
    "stem.*": LAYERS,
    "stem.bias": LAYERS - 1,
}


@pytest.mark.parametrize("choice", BACKWARD)
def test_backward_products(choice: str, convnet: Path) -> None:
    module = training_module(convnet, [choice])
    forward = products(module["evaluate"])
    assert len(forward) == LAYERS
    assert len(products(module["train_step"])) - LAYERS == BACKWARD[choice]


def test_a_sparse_update_multiplies_less(convnet: Path) -> None:
    total = {
        choice: sum(map(multiply_adds, products(training_module(convnet, [choice])["train_step"])))
        for choice in ("*", "bias", "sparse{channels=0.25}")
    }
    whole, part = (total[c] - total["bias"] for c in ("*", "sparse{channels=0.25}"))
    assert 0.2 * whole < part < 0.3 * whole


def test_frozen_matrices_are_read_where_they_lie(tmp_path: Path) -> None:
    """An unfolded export transposes each: copies of frozen ones would wait for the backward."""
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[8, 64] x) => (float[8, 64] y)
    { at = Transpose <perm = [1, 0]> (a) u = MatMul (x, at) v = Tanh (u)
      bt = Transpose <perm = [1, 0]> (b) y = MatMul (v, bt) }"""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name in "ab":
        value = rng.standard_normal((64, 64)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, tmp_path / "m.onnx")
    arenas = {
        choice: odtc.compile(tmp_path / "m.onnx", loss="mse", train=choice).memory.arena_bytes
        for choice in ("*", "a")
    }
    assert arenas["a"] <= arenas["*"]


def test_storage_shrinks_with_what_is_trained(convnet: Path) -> None:
    """Of a frozen backbone nothing is saved: a step needs hardly more than an evaluation."""
    artifacts = {
        choice: odtc.compile(
            convnet, batch=16, train=choice, freeze_batch_norm=True, optimizer=OPTIMIZER
        )
        for choice in ("*", "sparse{channels=0.25}", "head.*")
    }
    sizes = {choice: artifact.manifest.sizes for choice, artifact in artifacts.items()}
    saved = {
        choice: [t for t in artifact.memory.plan.tensors if t.kind is Kind.SAVED]
        for choice, artifact in artifacts.items()
    }
    bytes_ = [s.train_step for s in sizes.values()]
    assert bytes_ == sorted(bytes_, reverse=True)
    head = sizes["head.*"]
    assert head.optimizer == 4 * (10 * 5 + 5)
    assert head.train_step < head.evaluate + 1024
    # What the head multiplies, for the gradient of its weight, and the two numbers of a row that
    # the gradient of cross-entropy reads.
    assert sum(t.nbytes for t in saved["head.*"]) <= 16 * (10 + 2 + 5) * 4
    assert sum(t.nbytes for t in saved["*"]) > 0.5 * sizes["*"].train_step


@pytest.mark.parametrize("still", [True, False])
def test_frozen_batch_norm(still: bool, tmp_path: Path) -> None:
    """As PyTorch with the modules in `eval()`; without the option as PyTorch in `train()`."""
    path = tmp_path / "model.onnx"
    module = exported(ConvNet, path)
    artifact = odtc.compile(path, freeze="norm*", freeze_batch_norm=still, optimizer=OPTIMIZER)
    assert bool(artifact.manifest.notes) != still
    trainer = artifact.trainer()
    before = trainer.parameters()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.train(not still).requires_grad_(False)
    follow(trainer, module, [p for p in module.parameters() if p.requires_grad])
    found = trainer.parameters()
    for name, value in module.named_parameters():
        if value.requires_grad:
            # A bias in front of a norm by the batch has a gradient of rounding errors.
            if still or name not in ("stem.bias", "depthwise.bias"):
                assert relative_error(found[name], value.detach().numpy()) < 1e-4, name
        else:
            assert np.array_equal(found[name], before[name]), name
    moved = [n for n in found if "running" in n and not np.array_equal(found[n], before[n])]
    assert len(moved) == (0 if still else 4)


def test_an_operator_without_gradient_may_lie_behind_what_is_trained(tmp_path: Path) -> None:
    import onnx

    weight = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    model = node_model("Hardmax", (2, 6))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["logits", "w"], ["out"], "head"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model.graph.output[0].name = "out"
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UnsupportedError, match="Hardmax"):
        odtc.compile(tmp_path / "model.onnx")
    trainer = odtc.compile(tmp_path / "model.onnx", train="w").trainer()
    before = trainer.parameters()
    trainer.step(np.ones((2, 6), np.float32), np.zeros(2, int), lr=0.1)
    after = trainer.parameters()
    assert np.array_equal(before["p"], after["p"])
    assert not np.array_equal(before["w"], after["w"])
