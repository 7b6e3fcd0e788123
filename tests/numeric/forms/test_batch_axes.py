"""Samples along other axes than the first: steps, evaluation, data files, micro-batches."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError, UsageError
from odtc.core.ir.place import Place
from odtc.runtime_rpc.data.readers import read_data
from odtc.runtime_rpc.data.source import Stream

BATCH, STEPS, CLASSES = 4, 5, 3
TEXT = """
<ir_version: 8, opset_import: ["": 17]>
net (int64[N, 2] unread, float[N, 5, 4] x, float[2, N, 3] h0, float gain) => (float[5, N, 3] y)
<int64[1] a0 = {0}> {
    t = Transpose <perm = [1, 0, 2]> (x)
    m = MatMul (t, w)
    s = ReduceSum <keepdims = 1> (h0, a0)
    a = Add (m, s)
    y = Mul (a, gain)
}
"""
W = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    path = tmp_path_factory.mktemp("axes") / "m.onnx"
    onnx.save(proto, path)
    return path


@pytest.fixture(scope="module", params=[1, 2], ids=["whole", "in parts"])
def artifact(request: pytest.FixtureRequest, model: Path) -> odtc.Artifact:
    return odtc.compile(
        model, batch=BATCH, loss="cross-entropy{axis=-1}", micro_batches=request.param
    )


def fed(samples: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "x": random.standard_normal((samples, STEPS, 4)).astype(np.float32),
        "h0": random.standard_normal((2, samples, CLASSES)).astype(np.float32),
        "gain": np.array(0.5, np.float32),
        "unread": np.zeros((samples, 2), np.int64),
    }


def labels(samples: int) -> np.ndarray:
    return np.random.default_rng(9).integers(CLASSES, size=(STEPS, samples))


def reference_step(x: dict[str, np.ndarray], y: np.ndarray, lr: float) -> tuple[float, np.ndarray]:
    """Loss before the update, and the new weight."""
    scores = (x["x"].transpose(1, 0, 2) @ W + x["h0"].sum(0)) * x["gain"]
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    right = np.eye(CLASSES)[y]
    slope = (chances - right) / y.size * x["gain"]
    gradient = np.einsum("nti,tno->io", x["x"], slope)
    return float(-np.log((chances * right).sum(-1)).mean()), W - lr * gradient


def test_a_step_is_that_of_all_samples(artifact: odtc.Artifact) -> None:
    manifest = artifact.manifest
    assert manifest.batch == BATCH
    shapes = {spec.name: spec.shape for spec in manifest.inputs}
    assert shapes == {"x": (4, 5, 4), "h0": (2, 4, 3), "gain": ()}
    assert manifest.labels[0].spec.shape == (STEPS, BATCH)
    trainer, x, y = artifact.trainer(threads=1), fed(BATCH), labels(BATCH)
    loss, weight = reference_step(x, y, 0.5)
    assert trainer.step(x, y, lr=0.5) == pytest.approx(loss, abs=1e-5)
    np.testing.assert_allclose(trainer.parameters()["w"], weight, atol=1e-5)
    x.pop("unread")
    assert trainer.step(x, y, lr=0.0) < loss


def test_any_number_of_samples_is_evaluated(artifact: odtc.Artifact, model: Path) -> None:
    trainer, run = artifact.trainer(threads=1), ReferenceEvaluator(str(model)).run
    for samples in (1, 3, 4, 7):
        x = fed(samples)
        (expected,) = run(["y"], x)
        np.testing.assert_allclose(trainer.evaluate(x), expected, atol=1e-5)
    with pytest.raises(DataError, match="h0 4 along axis 1"):
        trainer.evaluate(fed(3) | {"h0": fed(4)["h0"]})
    with pytest.raises(DataError, match=r"h0 has shape \[4, 2, 3\]"):
        trainer.evaluate(fed(2) | {"h0": np.zeros((4, 2, 3), np.float32)})
    with pytest.raises(DataError, match="the inputs fed are"):
        trainer.evaluate(fed(2) | {"other": np.zeros(2)})


def test_data_files_are_cut_where_the_samples_lie(
    artifact: odtc.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact.save(tmp_path / "a.odtc")
    samples = 2 * BATCH + 1
    np.savez(tmp_path / "d.npz", **fed(samples), y=labels(samples))
    data = str(tmp_path / "d.npz")
    command = ["train", str(tmp_path / "a.odtc"), "--data", data, "--eval-data", data]
    assert main([*command, "--lr", "0.5", "--epochs", "30", "--threads", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    trainer, shuffled = artifact.trainer(threads=1), np.random.default_rng
    loss = 0.0
    # What fills no batch of an epoch goes with the next one.
    stream = np.concatenate([shuffled([0, e]).permutation(samples) for e in range(30)])
    for step in range(30 * samples // BATCH):
        order = stream[step * BATCH :][:BATCH]
        x = fed(samples)
        x = x | {"x": x["x"][order], "h0": x["h0"][:, order]}
        loss = trainer.step(x, labels(samples)[:, order], lr=0.5)
    assert said["loss"] == pytest.approx(loss, abs=1e-6)
    right = trainer.evaluate(fed(samples)).argmax(-1) == labels(samples)
    assert said["accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("size", ["N", "M"], ids=["named", "nameless"])
def test_an_output_whose_samples_are_not_known_is_evaluated_whole(
    tmp_path: Path, size: str
) -> None:
    """Its labels lie where the file gives its batch the name of the input's, else nowhere."""
    text = TEXT.replace("[5, N, 3] y", f"[5, {size}, 3] y").replace(
        "Mul (a, gain)", "Sub (a, u) u0 = Identity (gain)"
    )
    text = text.replace("y = Sub", "u = ReduceMean <axes = [1]> (a) y = Sub")
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="holds no entry for each of 4"):
        odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss="mse", batch_axis={"y": 0})
    artifact = odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss="mse")
    assert any("--batch-axis y=AXIS" in note for note in artifact.manifest.notes)
    trainer, x = artifact.trainer(threads=1), fed(BATCH)
    (expected,) = ReferenceEvaluator(proto).run(["y"], x)
    np.testing.assert_allclose(trainer.evaluate(x), expected, atol=1e-5)
    with pytest.raises(DataError, match="nothing shows where the samples lie"):
        trainer.evaluate(fed(2 * BATCH))
    for samples in (BATCH, 2 * BATCH):
        held = samples if size == "N" else BATCH
        np.savez(tmp_path / f"{samples}.npz", **fed(samples), y=np.zeros((STEPS, held, CLASSES)))
    if size == "N":
        (label,) = artifact.manifest.labels
        assert label.place == Place(1)
        assert len(read_data(tmp_path / f"{2 * BATCH}.npz", artifact.manifest)) == 2 * BATCH
        return
    # As it stands in the file: in another order a label would be another sample's.
    one = read_data(tmp_path / f"{BATCH}.npz", artifact.manifest)
    np.testing.assert_array_equal(next(Stream(one, BATCH, 0).batches(0))[0]["x"], one.inputs["x"])
    with pytest.raises(DataError, match="so it is of one batch of 4; the data holds 8"):
        read_data(tmp_path / f"{2 * BATCH}.npz", artifact.manifest)
