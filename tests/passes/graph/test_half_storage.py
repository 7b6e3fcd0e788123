"""Saved tensors wait as float16: same loss, nearly the same gradients, fewer bytes."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.models.digits import bn_model, digits_data, digits_model
from odtc.core.errors import UsageError
from odtc.passes.contract import run_pipeline
from odtc.passes.graph.half_storage import (
    HalfStorage,
    forward_length,
    saved_tensors,
    with_fields_named,
)
from tests.fast import fast_if
from tests.host import loaded
from tests.numeric.conftest import relative_error, text_model
from tests.targets import storage_only


def trained(path: Path, precision: str, x, y, steps: int = 1):
    artifact = odtc.compile(path, storage_only(), batch=len(x), precision=precision)
    trainer = artifact.trainer()
    before = trainer.parameters()
    losses = [trainer.step(x, y, lr=0.01) for _ in range(steps)]
    change = {k: v - before[k] for k, v in trainer.parameters().items()}
    return losses, change


def averaged() -> onnx.ModelProto:
    """The digits model with average pooling, through which rounding moves no gradient elsewhere."""
    model = digits_model()
    for node in model.graph.node:
        if node.op_type == "MaxPool":
            node.op_type = "AveragePool"
    return model


MODELS = {
    "averaged": (averaged, 2e-3),
    # Rounding makes elements equal under a window, and another one may get the gradient.
    "max-pooled": (digits_model, 5e-2),
    "batch-norm": (bn_model, 1e-2),
}


@pytest.mark.parametrize("name", fast_if(lambda name: name != "averaged", MODELS))
def test_same_loss_and_nearly_the_same_gradients(name: str, tmp_path: Path) -> None:
    make, rounding = MODELS[name]
    path = tmp_path / "model.onnx"
    onnx.save(make(), path)
    x, y, *_ = digits_data()
    losses, change = trained(path, "float32", x[:32], y[:32])
    half_losses, half_change = trained(path, "mixed", x[:32], y[:32])
    # The forward pass, running statistics among it, is the same arithmetic.
    assert half_losses == pytest.approx(losses, rel=1e-6)
    for weight, value in change.items():
        bound = 1e-6 if "running" in weight else rounding
        assert relative_error(half_change[weight], value) < bound, weight


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("length", [8, 2])
def test_an_extremum_equals_elements_that_are_saved(
    op_type: str, keepdims: int, length: int, tmp_path: Path
) -> None:
    """Results that are too few to be rounded, of data that are not; and such that both might be."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (6, 64)), ("head", (64, 5)))
    ]
    weights.append(numpy_helper.from_array(np.array([0, 64], np.int64), "rows"))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node(op_type, ["t"], ["m"], axes=[1], keepdims=keepdims),
        helper.make_node("Reshape", ["m", "rows"], ["f"]),
        helper.make_node("MatMul", ["f", "head"], ["y"]),
    ]
    batch = 64 // length
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, length, 6])
    scores = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])
    graph = helper.make_graph(nodes, "extrema", [image], [scores], weights)
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset), path := tmp_path / "extrema.onnx")
    x = rng.standard_normal((batch, length, 6)).astype(np.float32)
    y = rng.integers(0, 5, batch).astype(np.int32)
    _, change = trained(path, "float32", x, y)
    _, found = trained(path, "mixed", x, y)
    for weight, value in change.items():
        assert relative_error(found[weight], value) < 2e-3, weight


@pytest.mark.parametrize(
    ("op_type", "image", "weight"),
    [("MatMul", [512, 32], (32, 32)), ("Conv", [32, 8, 16, 16], (8, 8, 1, 1))],
)
def test_the_plan_shrinks(
    op_type: str, image: list[int], weight: tuple[int, ...], tmp_path: Path
) -> None:
    """Where saved tensors are most of the plan: thirty layers, a large batch, small workspaces."""
    rng = np.random.default_rng(0)
    names = [f"w{layer}" for layer in range(30)]
    nodes = []
    for layer, name in enumerate(names):
        nodes.append(helper.make_node(op_type, [f"r{layer}", name], [f"h{layer}"]))
        nodes.append(helper.make_node("Relu", [f"h{layer}"], [f"r{layer + 1}"]))
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("r0", TensorProto.FLOAT, image)],
            [helper.make_tensor_value_info("r30", TensorProto.FLOAT, image)],
            [
                numpy_helper.from_array(rng.standard_normal(weight).astype(np.float32), name)
                for name in names
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    full, half = (
        odtc.compile(path, precision=p).manifest.sizes.train_step for p in ("float32", "mixed")
    )
    # A kernel that cannot read halves would need a copy of what it reads.
    assert half < 0.62 * full


def test_the_image_of_few_channels_is_copied_in_panels(tmp_path: Path) -> None:
    """The gradient of such weights reads vectors of what is stored, from a band of rows on."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (16, 1, 1, 1), "w2": (32, 16, 1, 1), "w3": (10, 32)}
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["h1"]),
        helper.make_node("Sigmoid", ["h1"], ["s1"]),
        helper.make_node("Conv", ["s1", "w2"], ["h2"]),
        helper.make_node("GlobalAveragePool", ["h2"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w3"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [4, 1, 64, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [4, 10])],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in shapes.items()
        ],
    )
    path = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    x = rng.standard_normal((4, 1, 64, 64)).astype(np.float32)
    y = rng.integers(0, 10, 4)
    (_, change), (_, half) = (trained(path, p, x, y) for p in ("float32", "mixed"))
    for weight, value in change.items():
        assert relative_error(half[weight], value) < 2e-3, weight


def test_the_mask_of_attention_stays_exact(tmp_path: Path) -> None:
    """A query that sees nothing has scores that float16 cannot hold."""
    model = text_model(
        "a = Reshape (h, split) q = Transpose <perm = [0, 2, 1, 3]> (a) "
        "k = Transpose <perm = [0, 2, 3, 1]> (a) s = MatMul (q, k) "
        "e = ReduceMean <axes = [2]> (x) g = Greater (e, zero) r = Reshape (g, keys) "
        "c = And (r, before) m = Where (c, zero, lowest) l = Add (s, m) "
        "w = Softmax <axis = -1> (l) z = MatMul (w, q) y = Tanh (z)",
        (2, 64, 16),
        constants={
            "split": np.array([2, 64, 2, 8]),
            "keys": np.array([2, 1, 1, 64]),
            "before": np.tril(np.ones((64, 64), bool), -1)[None, None],
            "zero": np.float32(0),
            "lowest": np.finfo(np.float32).min,
        },
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    x = np.random.default_rng(0).standard_normal((2, 64, 16)).astype(np.float32)
    changes = [trained(path, p, x, np.array([3, 5]))[1]["p"] for p in ("mixed", "float32")]
    assert relative_error(*changes) < 1e-2


@pytest.mark.slow
def test_training_goes_on_as_in_float32(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(digits_model(), path)
    x, y, *_ = digits_data()
    losses, _ = trained(path, "float32", x[:32], y[:32], steps=20)
    half_losses, _ = trained(path, "mixed", x[:32], y[:32], steps=20)
    assert half_losses == pytest.approx(losses, rel=1e-2)


def test_values_beyond_the_range_of_float16_are_bounded(tmp_path: Path) -> None:
    """An infinity that is stored would make every gradient after it infinite or not a number."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 64)).astype(np.float32)
    v = (rng.standard_normal((64, 10)) * 1e-6).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [32, 10])],
        [numpy_helper.from_array(value, name) for name, value in (("w", w), ("v", v))],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = (rng.standard_normal((32, 64)) * 1e5).astype(np.float32)
    _, change = trained(path, "mixed", x, rng.integers(0, 10, 32))
    assert all(np.isfinite(value).all() for value in change.values())
    assert np.abs(change["v"]).max() > 0


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(digits_model(), path)
    with pytest.raises(UsageError, match="unknown precision 'half'"):
        odtc.compile(path, batch=2, precision="half")


def test_a_saved_reshape_is_its_source() -> None:
    module = hand_written()
    (block,) = module["step"].body.blocks
    bindings = with_fields_named(block.bindings, forward_length(module["step"]))
    assert {variable.name for variable in saved_tensors(bindings, 1)} == {"hidden"}
    assert saved_tensors(bindings, 1 << 20) == set()


def test_values_of_the_rewritten_function() -> None:
    module = hand_written()
    half = run_pipeline((HalfStorage("step", least=1),), module)
    assert half["step"].script().count("to_half") == 1
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((32, 64)).astype(np.float32) for _ in range(2))
    expected = np.maximum(x + w, 0)
    loss, gradient = run(half, x, w)
    np.testing.assert_allclose(loss, (expected**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, 2 * expected.astype(np.float16), rtol=1e-6)


@pytest.mark.parametrize("products_round", [False, True])
def test_products_of_the_forward_pass_read_what_is_stored_where_they_round(
    products_round: bool,
) -> None:
    """Through a reshape, behind which the cast stands; other readers do not."""
    passes = (HalfStorage("step", least=1, products_round=products_round),)
    half = run_pipeline(passes, with_a_product())
    narrow = (
        r'(\w+): R.Tensor\(\(64, 32\), dtype="float16"\) = R.reshape\(hidden_1.*\n.*R.astype\(\1,'
    )
    assert bool(re.search(narrow, half["step"].script())) == products_round
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((32, 64)).astype(np.float32) for _ in range(2))
    hidden = np.maximum(x + w, 0)
    loss, gradient, product = run(half, x, w)
    read = (hidden.astype(np.float16) if products_round else hidden).reshape(64, 32)
    expected = read.astype(np.float64) @ hidden.reshape(64, 32).T
    # Rounding shows in the fourth place.
    np.testing.assert_allclose(product, expected, rtol=3e-6)
    np.testing.assert_allclose(loss, hidden.astype(np.float64).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient, 2 * hidden.astype(np.float16), rtol=1e-6)


def with_a_product() -> tvm.IRModule:
    """`loss = sum(hidden)`, twice what is saved of `hidden`, and `flat @ flat.T` of a reshape."""
    x, w = (relax.Var(name, relax.TensorType((32, 64), "float32")) for name in "xw")
    builder = relax.BlockBuilder()
    with builder.function("step", [x, w]):
        with builder.dataflow():
            hidden = builder.emit(R.nn.relu(R.add(x, w)), "hidden")
            flat = builder.emit(R.reshape(hidden, (64, 32)), "flat")
            product = builder.emit(R.matmul(flat, R.permute_dims(flat)))
            loss = builder.emit(R.sum(hidden), "loss")
            gradient = builder.emit(R.add(hidden, hidden))
            results = [builder.emit_output(value) for value in (loss, gradient, product)]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


def hand_written() -> tvm.IRModule:
    """`loss = sum(flat * flat)` with `flat` a reshape of `hidden`, and its adjoint."""
    x, w = (relax.Var(name, relax.TensorType((32, 64), "float32")) for name in "xw")
    builder = relax.BlockBuilder()
    with builder.function("step", [x, w]):
        with builder.dataflow():
            hidden = builder.emit(R.nn.relu(R.add(x, w)), "hidden")
            flat = builder.emit(R.reshape(hidden, (32 * 64,)), "flat")
            loss = builder.emit(R.sum(R.multiply(flat, flat)), "loss")
            twice = builder.emit(R.add(flat, flat))
            zero = relax.const(np.float32(0))
            mask = builder.emit(R.greater(hidden, zero))
            gradient = builder.emit(R.where(mask, R.reshape(twice, (32, 64)), zero))
            results = [builder.emit_output(value) for value in (loss, gradient)]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


def run(module: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    executable = loaded(module)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return [v.numpy() for v in machine["step"](*(tvm.runtime.tensor(a) for a in arrays))]
