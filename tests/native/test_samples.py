"""Evaluations of fewer samples than a step has: their numbers are those of a whole batch's rows."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import odtc
from odtc.core.ir.place import take
from odtc.core.specs import Role
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import TARGET, fed_to, native_trainer, tvm_trainer
from tests.numeric.mlp import INPUTS, batches, mlp_artifact

UPDATE = odtc.Update(odtc.SGD(momentum=0.9), ema=0.9)
BATCH = 8


def model_of(text: str, **weights: tuple[int, ...]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}')
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        value = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def centred() -> onnx.ModelProto:
    """A model whose samples are compared with their mean."""
    text = "(float[N, 4] x) => (float[N, 3] y) { a = MatMul (x, w) "
    model = model_of(text + "u = ReduceMean <keepdims = 1> (a, axes) y = Sub (a, u) }", w=(4, 3))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axes"))
    return model


def compiled(model: onnx.ModelProto, folder: Path, **options) -> odtc.Artifact:
    onnx.save(model, path := folder / "m.onnx")
    return odtc.compile(path, TARGET, loss="mse", **options)


def junk(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What no model can compute with."""
    return np.full(shape, np.nan if dtype.kind == "f" else np.iinfo(dtype).max, dtype)


def assert_same_samples(artifact: odtc.Artifact, folder: Path, x: np.ndarray) -> None:
    """Each number of samples, in C, in Python, and by TVM: the same bits; behind them lies junk."""
    place = artifact.manifest.fed(Role.INPUT)[0].place
    of_result = artifact.manifest.evaluations[0].place
    assert place
    assert of_result
    averages = (False, True) if artifact.manifest.of_role(Role.AVERAGE) else (False,)
    tvm, python = tvm_trainer(artifact, threads=1), artifact.trainer(threads=1)
    with native_trainer(artifact, folder / "native") as native:
        fed = native.tensors["input", "x"]
        whole = python.evaluate(x)
        assert native.samples == place.count(x.shape)
        for count in range(1, native.samples + 1):
            some = take(x, place, slice(count))
            fed[...] = junk(fed.shape, fed.dtype)
            take(fed, place, slice(count))[...] = some
            before = fed_to(native)
            for ema in averages:
                found = native.evaluate_samples(count, ema=ema)
                for each in (python, tvm):
                    wanted = each.evaluate(some, ema=ema)
                    assert found.shape == wanted.shape
                    assert found.tobytes() == wanted.tobytes(), (count, ema)
                rows = take(whole, of_result, slice(count))
                np.testing.assert_allclose(found, rows, rtol=1e-5, atol=1e-6)
            assert fed_to(native) == before


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_any_number_of_samples(micro_batches: int, tmp_path: Path) -> None:
    options = {"target": TARGET, "micro_batches": micro_batches}
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, **options)
    x = np.random.default_rng(1).standard_normal((BATCH, INPUTS)).astype(np.float32)
    assert_same_samples(artifact, tmp_path, x)


def test_a_set_is_evaluated_in_turns_and_a_step_is_none_the_wiser(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, target=TARGET)
    x = np.random.default_rng(1).standard_normal((2 * BATCH + 3, INPUTS)).astype(np.float32)
    (first, y), (second, z) = batches(2)
    with native_trainer(artifact, tmp_path / "native") as native:
        fed = native.tensors["input", "x"], native.tensors["label", "label"]
        found = []
        fed[0][...], fed[1][...] = first, y
        native.step(0.1)
        for start in range(0, len(x), BATCH):
            some = x[start : start + BATCH]
            fed[0][: len(some)] = some
            found.append(native.evaluate_samples(len(some)))
        fed[0][...], fed[1][...] = second, z
        loss = native.step(0.1)
    trainer = artifact.trainer(threads=1)
    trainer.step(first, y, lr=0.1)
    assert np.concatenate(found).tobytes() == trainer.evaluate(x).tobytes()
    assert loss == trainer.step(second, z, lr=0.1)


def test_samples_along_another_axis(tmp_path: Path) -> None:
    """Three words of each sample, all of the first words first."""
    text = "(float[3, 8, 4] x) => (float[3, 8, 5] y) { h = MatMul (x, w) r = Sigmoid (h) "
    model = model_of(text + "y = MatMul (r, v) }", w=(4, 6), v=(6, 5))
    x = np.random.default_rng(1).standard_normal((3, 8, 4)).astype(np.float32)
    for name, options in (("whole", {}), ("cut", {"micro_batches": 2})):
        artifact = compiled(model, tmp_path, batch_axis={"x": 1, "y": 1}, **options)
        (tmp_path / name).mkdir()
        assert_same_samples(artifact, tmp_path / name, x)


def test_indices_are_checked_as_far_as_they_are_read(tmp_path: Path) -> None:
    text = "(int64[N, 3] x) => (float[N, 3, 4] y) { h = Gather (w, x) y = MatMul (h, v) }"
    model = model_of(text, w=(10, 6), v=(6, 4))
    artifact = compiled(model, tmp_path, batch=4)
    x = np.random.default_rng(1).integers(0, 10, (4, 3))
    assert_same_samples(artifact, tmp_path, x)
    with native_trainer(artifact, tmp_path / "other") as native:
        native.tensors["input", "x"][...] = x
        native.tensors["input", "x"][2, 1] = 10
        native.evaluate_samples(2)
        for count in (3, 4):
            with pytest.raises(NativeError, match="element 7 of x is 10, outside"):
                native.evaluate_samples(count)


def test_numbers_that_no_step_has(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), BATCH, target=TARGET)
    with native_trainer(artifact, tmp_path / "native") as native:
        for count in (0, BATCH + 1, 2**32 - 1):
            said = f"{count} samples are to be evaluated; a step has room for 1 to {BATCH}"
            with pytest.raises(NativeError, match=said) as caught:
                native.evaluate_samples(count)
            assert caught.value.code is Code.USAGE


def test_samples_that_depend_on_each_other_are_refused(tmp_path: Path) -> None:
    artifact = compiled(centred(), tmp_path, batch=4)
    with native_trainer(artifact, tmp_path / "native") as native:
        assert native.evaluate_samples(4).tobytes() == native.evaluate().tobytes()
        with pytest.raises(
            NativeError, match="in y: 3 of them cannot be evaluated, only a micro-batch of 4"
        ) as caught:
            native.evaluate_samples(3)
        assert caught.value.code is Code.UNSUPPORTED


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_nothing_is_computed_of_values_that_were_not_fed(operator: str, tmp_path: Path) -> None:
    """A zero that an integer is divided by ends the process."""
    text = f"(int32[N, 4] x) => (float[N, 3] y) {{ d = {operator} (c, x) f = Cast <to = 1> (d) "
    model = model_of(text + "y = MatMul (f, w) }", w=(4, 3))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 4), 7, "i"), "c"))
    artifact = compiled(model, tmp_path, batch=4)
    x = np.random.default_rng(1).integers(1, 4, (4, 4), np.int32)
    with native_trainer(artifact, tmp_path / "native") as native:
        trainers = artifact.trainer(threads=1), tvm_trainer(artifact, threads=1)
        for count in range(1, 5):
            native.tensors["input", "x"][...] = 0
            native.tensors["input", "x"][:count] = x[:count]
            found = native.evaluate_samples(count)
            assert all(each.evaluate(x[:count]).tobytes() == found.tobytes() for each in trainers)
