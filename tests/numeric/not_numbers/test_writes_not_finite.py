"""A step that writes what is not finite says so at once, or leaves the update out if it is to."""

import math

import numpy as np
import onnx
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

import odtc
from odtc.core.errors import NumericError, UsageError
from odtc.core.ir.mark_loss import was_finite
from odtc.core.ir.marked_loss import loss_inside, marked
from tests.gpu.on_device import KINDS, run_kernel
from tests.numeric.conftest import ints

TARGETS = ["host-cpu", "host-opencl", "host-vulkan"]
X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
Y = np.arange(4) % 3
BODY = """<ir_version: 9, opset_import: ["" : 18]>
g (float[4, 6] x) => (float[4, 3] y)
<float[6, 70] w, float[70] b, float[70, 3] v> { h = Gemm (x, w, b) r = Tanh (h) y = MatMul (r, v) }
"""


def body(tmp_path):
    return saved(BODY, tmp_path, w=(6, 70), b=(70,), v=(70, 3))


def saved(text, tmp_path, **shapes):
    """A model in ONNX's text, with weights that are drawn."""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(1)
    del model.graph.initializer[:]
    for name, shape in shapes.items():
        value = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("loss", [0.5, 11.496653, 1e-30, 3e38, -2.25])
def test_a_marked_loss_holds_what_it_was(loss):
    bits = int(np.float32(loss).view(np.uint32)) >> 10 | 0x7FC00000
    assert loss_inside(float(np.uint32(bits).view(np.float32))) == pytest.approx(loss, rel=7e-5)


def test_a_marked_loss_of_zero_is_no_other_nan():
    assert loss_inside(marked(0.0)) == pytest.approx(0.0, abs=1e-40)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_does_not_change_whether_a_loss_was_finite(kind):
    least, nvidia = (float(np.uint32(bits).view(np.float32)) for bits in (1, 0x7FFFFFFF))
    losses = [0.5, -2.25, 0.0, least, 3e38, math.inf, -math.inf, math.nan, nvidia]
    given = np.float32([*losses, *(marked(each) for each in losses)])
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name("main")
            x, y = (T.arg(name, T.buffer(given.shape, "float32")) for name in "xy")
            with T.parallel(given.size) as at:
                T.buffer_store(y, tirx.Cast("float32", was_finite(x[at])), [at])
        kernel = builder.get()
    found = run_kernel(kind, kernel, [given], given.shape)
    np.testing.assert_array_equal(found, np.tile(np.isfinite(losses), 2))


@pytest.mark.parametrize("loss", [0.5, math.inf, math.nan, -math.nan])
def test_no_other_loss_is_marked(loss):
    assert loss_inside(loss) is None


@pytest.mark.parametrize("target", TARGETS)
def test_an_overflow_is_the_error_of_its_own_step(target, tmp_path):
    trainer = odtc.compile(body(tmp_path), target).trainer()
    first = odtc.compile(body(tmp_path), target).trainer().step(X, Y, 0.0)
    with pytest.raises(NumericError, match=r"elements of 'w' are -?inf at step 1 ") as caught:
        trainer.step(X, Y, 3e38)
    assert f"(loss {first:.3g}" in str(caught.value)


def test_overflows_of_a_state_are_found(tmp_path):
    trainer = odtc.compile(body(tmp_path), optimizer=odtc.Adam(), loss="mse").trainer()
    # Its square is infinite, so that the weight would never move again.
    labels = np.full((4, 3), 1e25, np.float32)
    with pytest.raises(NumericError, match=r"elements of '\w+/\w' are inf at step 1"):
        trainer.step(X, labels, 1e-3)


def test_what_was_fed_is_named_first(tmp_path):
    trainer = odtc.compile(body(tmp_path)).trainer()
    x = X.copy()
    x[1, 2] = np.nan
    with pytest.raises(NumericError, match="1 of 24 elements of 'x' are nan at step 1"):
        trainer.step(x, Y, 0.1)


def test_rows_of_an_embedding(tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (int64[4, 2] ids) => (float[4, 3] y) <float[50, 8] e, float[8, 3] v>
    { t = Gather (e, ids) m = ReduceMean <axes = [1], keepdims = 0> (t) y = MatMul (m, v) }
    """
    path = saved(text, tmp_path, e=(50, 8), v=(8, 3))
    trainer = odtc.compile(path, train=["e"], loss="mse").trainer()
    with pytest.raises(NumericError, match=r"elements of 'e' are -?inf at step 1"):
        trainer.step(ints(*range(8)).reshape(4, 2), np.full((4, 3), 1e3, np.float32), 3e38)


def test_running_statistics(tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[4, 6] x) => (float[4, 3] y)
    <float[6] s, float[6] b, float[6] mean, float[6] var, float[6, 3] v>
    { n, m, u = BatchNormalization <training_mode = 1> (x, s, b, mean, var) y = MatMul (n, v) }
    """
    path = saved(text, tmp_path, s=(6,), b=(6,), mean=(6,), var=(6,), v=(6, 3))
    trainer = odtc.compile(path).trainer()
    with pytest.raises(NumericError, match="elements of 'var' are inf at step 1"):
        trainer.step(X * np.float32(1e25), Y, 0.1)


@pytest.mark.parametrize(
    ("target", "calls", "parts"),
    [*((target, 1, 1) for target in TARGETS), ("host-cpu", 2, 1), ("host-cpu", 1, 2)],
)
def test_a_skipped_batch_leaves_everything_as_it_was(target, calls, parts, tmp_path):
    update = odtc.Update(odtc.Adam(), on_nonfinite="skip", accumulate=calls)
    compiled = odtc.compile(body(tmp_path), target, optimizer=update, micro_batches=parts)
    bad = X.copy()
    bad[0, 0] = np.nan
    hurt, clean = compiled.trainer(), compiled.trainer()
    for trainer in (hurt, clean):
        for _ in range(calls):
            trainer.step(X, Y, 0.01)
    before = hurt.parameters()
    for _ in range(calls):
        assert math.isnan(hurt.step(bad, Y, 0.01))
    assert hurt.skipped == 1
    for name, value in hurt.parameters().items():
        assert value.tobytes() == before[name].tobytes()
    for trainer in (hurt, clean):
        for _ in range(calls):
            trainer.step(X, Y, 0.01)
    for name, value in hurt.parameters().items():
        assert value.tobytes() == clean.parameters()[name].tobytes()


@pytest.mark.parametrize("bad", ["input", "label"])
def test_a_skipped_batch_leaves_running_statistics_as_they_were(bad, tmp_path):
    """Of a bad input they would be NaN; of a bad label they would be those of a batch left out."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[4, 6] x) => (float[4, 3] y)
    <float[6] s, float[6] b, float[6] mean, float[6] var, float[6, 3] v>
    { n, m, u = BatchNormalization <training_mode = 1> (x, s, b, mean, var) y = MatMul (n, v) }
    """
    path = saved(text, tmp_path, s=(6,), b=(6,), mean=(6,), var=(6,), v=(6, 3))
    update = odtc.Update(odtc.SGD(), on_nonfinite="skip")
    trainer = odtc.compile(path, loss="mse", optimizer=update).trainer()
    x, y = X.copy(), np.zeros((4, 3), np.float32)
    before = trainer.parameters()
    (x if bad == "input" else y)[0, 0] = np.nan if bad == "input" else 1e30
    assert not math.isfinite(trainer.step(x, y, 0.1))
    for name in ("mean", "var"):
        assert trainer.parameters()[name].tobytes() == before[name].tobytes()
    trainer.step(X, np.zeros((4, 3), np.float32), 0.1)
    assert trainer.parameters()["mean"].tobytes() != before["mean"].tobytes()


@pytest.mark.parametrize(("calls", "parts"), [(1, 1), (2, 1), (1, 2)])
def test_a_loss_that_is_not_finite_is_skipped_though_its_gradients_are(calls, parts, tmp_path):
    """The square of 1e30 is infinite, and its slope a finite number that would ruin the weights."""
    update = odtc.Update(odtc.SGD(), on_nonfinite="skip", accumulate=calls)
    made = odtc.compile(body(tmp_path), loss="mse", optimizer=update, micro_batches=parts)
    trainer, good = made.trainer(), np.zeros((4, 3), np.float32)
    bad = good.copy()
    bad[0, 0] = 1e30
    before = trainer.parameters()
    # The first of several is the bad one.
    losses = [trainer.step(X, labels, 0.1) for labels in (bad, good)[:calls]]
    assert not math.isfinite(losses[0])
    assert trainer.skipped == 1
    for name, value in trainer.parameters().items():
        assert value.tobytes() == before[name].tobytes()
    for _ in range(calls):
        assert math.isfinite(trainer.step(X, good, 0.01))
    assert trainer.parameters()["v"].tobytes() != before["v"].tobytes()


def test_what_on_nonfinite_may_be():
    with pytest.raises(UsageError, match="on_nonfinite 'ignore'"):
        odtc.Update(odtc.SGD(), on_nonfinite="ignore")
