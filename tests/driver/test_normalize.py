"""`normalize`: a step that takes pixels is that of PyTorch behind torchvision's Normalize."""

import json
import signal
from pathlib import Path

import numpy as np
import onnxruntime
import pandas
import pytest
import torch
from PIL import Image
from torchvision.transforms import Normalize

import odtc
from odtc.cli import console
from odtc.cli.main import main
from odtc.core.errors import ArtifactError, DataError
from odtc.frontend.inputs.normalization import NAMED
from odtc.runtime_rpc.data import moments

SIZE, BATCH, CLASSES = 12, 4, 3
PIXELS = np.random.default_rng(0).integers(0, 256, (8, 3, SIZE, SIZE), dtype=np.uint8)
LABELS = np.arange(8, dtype=np.int32) % CLASSES


def net() -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(288, CLASSES))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("normalize") / "m.onnx"
    odtc.from_torch(net(), (torch.zeros(BATCH, 3, SIZE, SIZE),), path)
    return path


def test_training_and_the_exported_file_are_as_of_pytorch(model: Path, tmp_path: Path):
    artifact = odtc.compile(model, batch=BATCH, normalize="imagenet", optimizer="adam")
    trainer, module = artifact.trainer(threads=1), net()
    named = NAMED["imagenet"]
    normalize = Normalize(list(named.means), list(named.deviations))
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    for start in (0, 4, 0):
        x, y = PIXELS[start : start + BATCH], LABELS[start : start + BATCH]
        loss = trainer.step(x, y, lr=0.01)
        optimizer.zero_grad()
        scores = module(normalize(torch.tensor(x).float() / 255))
        wanted = torch.nn.functional.cross_entropy(scores, torch.tensor(y).long())
        wanted.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, wanted.item(), rtol=1e-4)
    exported = trainer.export_onnx(tmp_path / "trained.onnx")
    assert exported.batches
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (fed,) = session.get_inputs()
    assert fed.type == "tensor(uint8)"
    scores = session.run(None, {fed.name: PIXELS})[0]
    with torch.no_grad():
        wanted = module(normalize(torch.tensor(PIXELS).float() / 255)).numpy()
    np.testing.assert_allclose(scores, wanted, atol=1e-3)
    np.testing.assert_allclose(scores, trainer.evaluate(PIXELS), atol=1e-4)
    # It is compiled again as it is, and no mean is trained.
    again = odtc.compile(tmp_path / "trained.onnx", batch=BATCH, optimizer="adam")
    assert [item.spec.name for item in again.manifest.arguments] == [
        item.spec.name for item in artifact.manifest.arguments
    ]


def test_images_of_a_folder_are_fed_as_bytes(model: Path, tmp_path: Path):
    for number, pixels in enumerate(PIXELS):
        folder = tmp_path / "data" / str(LABELS[number])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.moveaxis(pixels, 0, -1)).save(folder / f"{number}.png")
    data, art = str(tmp_path / "data"), str(tmp_path / "m.odtc")
    assert main(["compile", str(model), "--batch", "4", "--normalize", data, "-o", art]) == 0
    artifact = odtc.load(art)
    order = np.argsort(LABELS, kind="stable")
    x, y = PIXELS[order], LABELS[order]
    (said,) = artifact.manifest.normalized.values()
    mean = x.mean(axis=(0, 2, 3)) / 255
    assert said.startswith("takes pixels from 0 to 255 (uint8), normalised in the model by mean=")
    assert [*map(float, said.partition("mean=")[2].partition(",")[0].split(":"))] == pytest.approx(
        mean, rel=1e-4
    )
    trained = [artifact.trainer(threads=1) for _ in range(2)]
    for trainer, given in zip(trained, (data, (x, y)), strict=True):
        trainer.fit(given, lr=0.01, steps=3, augment=["flip", "crop{pixels=2}", "jitter"])
    for name, value in trained[0].parameters().items():
        np.testing.assert_array_equal(value, trained[1].parameters()[name])


def test_floats_are_no_pixels(model: Path):
    trainer = odtc.compile(model, batch=BATCH, normalize="mean=0.5,std=0.25").trainer(threads=1)
    with pytest.raises(DataError, match=r"float64; the step takes uint8[^!]*255 \* x"):
        trainer.step(PIXELS[:4] / 255, LABELS[:4], lr=0.1)


def test_a_checkpoint_says_how_its_run_was_normalised(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.savez(tmp_path / "d.npz", x=PIXELS, y=LABELS)
    run = ["--data", str(tmp_path / "d.npz"), "--lr", "0.01", "--checkpoint", str(tmp_path / "c")]
    for name, how in (("a", "imagenet"), ("b", "mean=0.5,std=0.25")):
        path = str(tmp_path / f"{name}.odtc")
        assert main(["compile", str(model), "--batch", "4", "--normalize", how, "-o", path]) == 0
    assert main(["train", str(tmp_path / "a.odtc"), *run]) == 0
    code = main(["train", str(tmp_path / "b.odtc"), *run, "--epochs", "2", "--resume"])
    assert code == ArtifactError("").exit_code
    assert "normalisation.input: takes pixels" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "b.odtc"), "--json"]) == 0
    assert "mean=0.5,std=0.25" in json.loads(capsys.readouterr().out)["normalized"]["input"]


def test_rows_of_a_table_are_normalised_by_its_own_moments(tmp_path: Path):
    x = (100 + 20 * np.random.default_rng(0).standard_normal((32, 5))).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=LABELS.repeat(4))
    module = torch.nn.Linear(5, CLASSES)
    odtc.from_torch(module, (torch.zeros(4, 5),), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=4, normalize=tmp_path / "d.npz")
    found = artifact.trainer(threads=1).evaluate(x)
    with torch.no_grad():
        wanted = module(torch.tensor((x - x.mean(axis=0)) / x.std(axis=0))).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_ctrl_c_while_a_folder_is_read(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for number, pixels in enumerate(PIXELS):
        (tmp_path / "images" / "a").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.moveaxis(pixels, 0, -1)).save(
            tmp_path / "images" / "a" / f"{number}.png"
        )
    told = []

    def said(text: str, style: str = "") -> None:
        del style
        told.append(text)
        if text.endswith("3 of 8"):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(moments, "_SECONDS", 0.0)
    monkeypatch.setattr(console, "say", said)
    words = ["compile", model, "--batch", BATCH, "--normalize", tmp_path / "images"]
    assert main([str(word) for word in (*words, "-o", tmp_path / "a.odtc")]) == 130
    assert told[-1] == f"read the images of {tmp_path / 'images'}: 3 of 8"
    assert not (tmp_path / "a.odtc").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_columns_are_taken_by_the_names_that_it_was_compiled_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """By their places each would be normalised by the numbers of another."""
    columns = {"size": np.arange(8.0), "age": 1000.0 + np.arange(8.0), "y": np.arange(8) % 2}
    for name, order in (("a", ("size", "age", "y")), ("b", ("age", "size", "y"))):
        pandas.DataFrame({each: columns[each] for each in order}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    odtc.from_torch(torch.nn.Linear(2, 2), (torch.zeros(4, 2),), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=4, normalize=tmp_path / "a.csv")
    assert artifact.manifest.columns == {"input": ("size", "age")}
    artifact.save(path := tmp_path / "m.odtc")
    train = ["train", str(path), "--lr", "0.01", "--json", "--data"]
    losses = []
    for name in ("a", "b"):
        assert main([*train, str(tmp_path / f"{name}.csv")]) == 0
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    assert losses[0] == losses[1]
    frame = pandas.read_csv(tmp_path / "b.csv")
    found = []
    for order in (["age", "size"], ["size", "age"]):
        trainer = odtc.load(path).trainer(threads=1)
        trainer.fit((frame[order], frame["y"]), lr=0.01)
        found += [trainer.predict(frame[each]) for each in (["age", "size"], ["size", "age"])]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    with pytest.raises(DataError, match="the training had the columns size, which are not there"):
        odtc.load(path).trainer(threads=1).fit((frame[["age", "y"]], frame["y"]), lr=0.01)
