"""`odtc predict`: outputs as arrays, or as a table with the classes by their names."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import SAMPLES, Digits, trained
from tests.runtime_rpc.own_server import NATIVE, serving

COMPILED = "note: the weights are those that were compiled; --checkpoint FILE takes trained ones"


def predict(files: Digits, *options: str | Path, code: int = ExitCode.OK) -> None:
    words = ["predict", files.artifact, "--data", files.test, *options]
    assert main([*map(str, words)]) == code


def scores(files: Digits, checkpoint: Path | None = None) -> np.ndarray:
    """What the trainer itself makes of the samples."""
    with odtc.load(files.artifact).trainer() as trainer:
        if checkpoint:
            trainer.load_checkpoint(checkpoint)
        return trainer.evaluate(np.load(files.test)["x"])


@pytest.fixture(scope="module")
def checkpoint(digits: Digits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "d.ckpt"
    assert main(trained(digits, "--lr", "0.05", "--steps", "8", "--checkpoint", str(path))) == 0
    return path


def test_arrays_are_what_evaluate_gives(
    digits: Digits, checkpoint: Path, here: Path, capsys: pytest.CaptureFixture[str]
):
    expected = scores(digits, checkpoint)
    for name in ("a.npy", "a.npz"):
        predict(digits, "--checkpoint", checkpoint, "-o", name)
    out, err = capsys.readouterr()
    assert out == "a.npy\na.npz\n"
    assert COMPILED not in err
    assert f"sample {SAMPLES} of {SAMPLES}\n" in err
    np.testing.assert_array_equal(np.load("a.npy"), expected)
    with np.load("a.npz") as found:
        assert found.files == ["logits"]
        np.testing.assert_array_equal(found["logits"], expected)


def test_a_table_reads_back_to_the_same_bits(
    digits: Digits, checkpoint: Path, here: Path, capsys: pytest.CaptureFixture[str]
):
    expected = scores(digits, checkpoint)
    predict(digits, "--checkpoint", checkpoint)
    printed = capsys.readouterr().out
    predict(digits, "--checkpoint", checkpoint, "-o", "a.csv")
    assert Path("a.csv").read_text() == printed
    head, *rows = csv.reader(io.StringIO(printed))
    assert head == ["class", *(f"logits{n}" for n in range(10))]
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], np.float32), expected)
    assert [int(row[0]) for row in rows] == expected.argmax(axis=1).tolist()


def test_without_a_checkpoint_it_says_whose_weights_they_are(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]
):
    predict(digits, "--json")
    found = capsys.readouterr()
    assert COMPILED in found.err
    data = json.loads(found.out)
    assert data["outputs"] == {"logits": [SAMPLES, 10]}
    first = scores(digits)[0]
    assert data["rows"][0] == {
        "class": str(first.argmax()),
        **{f"logits{n}": float(str(value)) for n, value in enumerate(first)},
    }


def test_a_device_gives_the_same_bits(digits: Digits, checkpoint: Path, here: Path, tmp_path: Path):
    with serving(tmp_path / "server", server=NATIVE) as url:
        predict(digits, "--checkpoint", checkpoint, "--device", url, "-o", "a.npy")
    np.testing.assert_array_equal(np.load("a.npy"), scores(digits, checkpoint))


def photos(folder: Path, names: list[str]) -> Path:
    for seed, name in enumerate(names):
        pixels = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)
    return folder


def test_images_have_their_names_and_those_of_their_classes(
    here: Path, capsys: pytest.CaptureFixture[str]
):
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(108, 2))
    odtc.from_torch(net, (torch.zeros(4, 3, 6, 6),), "net.onnx")
    data = photos(here / "train", [f"{name}/{n}.png" for name in ("cat", "dog") for n in range(4)])
    new = photos(here / "new", ["b.png", "a.png", "of dogs/c.png"])
    assert main(["compile", "net.onnx", "--batch", "4", "-o", "net.odtc"]) == ExitCode.OK
    train = ["train", "net.odtc", "--data", str(data), "--lr", "0.1", "--epochs", "1"]
    assert main([*train, "--checkpoint", "c", "--export", "t.onnx"]) == ExitCode.OK
    capsys.readouterr()

    def rows(*options: str) -> list[list[str]]:
        assert main(["predict", *options, "--data", str(new)]) == ExitCode.OK
        return [*csv.reader(io.StringIO(capsys.readouterr().out))]

    found = rows("net.odtc", "--checkpoint", "c")
    assert found[0] == ["file", "class", "cat", "dog"]
    assert [row[0] for row in found[1:]] == ["a.png", "b.png", "of dogs/c.png"]
    for _, name, *of_each in found[1:]:
        assert name == ("cat", "dog")[np.argmax([float(each) for each in of_each])]
    # A model that has them in its file takes them along.
    assert main(["compile", "t.onnx", "--batch", "4", "-o", "again.odtc"]) == ExitCode.OK
    capsys.readouterr()
    again = rows("again.odtc")
    assert again[0] == found[0]
    for one, other in zip(found[1:], again[1:], strict=True):
        np.testing.assert_allclose([*map(float, one[2:])], [*map(float, other[2:])], rtol=1e-5)
    # As it is, too.
    straight = rows("t.onnx")
    assert straight[0] == found[0]
    for one, other in zip(found[1:], straight[1:], strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose([*map(float, one[2:])], [*map(float, other[2:])], rtol=1e-4)
    assert main(["predict", "net.odtc", "--data", str(new), "-o", "a.npz"]) == ExitCode.OK
    with np.load("a.npz") as arrays:
        assert arrays["file"].tolist() == ["a.png", "b.png", "of dogs/c.png"]


def test_outputs_that_are_no_row_a_sample(here: Path, capsys: pytest.CaptureFixture[str]):
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.layer(x)
            return {"price": y[:, 0], "map": y.reshape(-1, 2, 2)}

    odtc.from_torch(Two(), (torch.zeros(4, 6),), "net.onnx")
    losses = ["--loss", "price=mse", "map=mse", "--batch", "4"]
    assert main(["compile", "net.onnx", *losses, "-o", "net.odtc"]) == ExitCode.OK
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    np.savez("x.npz", x=x)
    capsys.readouterr()
    run = ["predict", "net.odtc", "--data", "x.npz"]
    assert main(run) == ExitCode.OK
    out = capsys.readouterr().out.splitlines()
    with odtc.load("net.odtc").trainer() as trainer:
        price, shaped = trainer.predict(x, "price"), trainer.predict(x, "map")
    assert out == ["price", *map(str, price)]
    assert main([*run, "--output-names", "price", "map", "-o", "both.npz"]) == ExitCode.OK
    with np.load("both.npz") as found:
        np.testing.assert_array_equal(found["price"], price)
        np.testing.assert_array_equal(found["map"], shaped)
    for options, code, said in (
        (["map"], ExitCode.USAGE, "has no row of numbers for each sample"),
        (["price", "map", "-o", "a.csv"], ExitCode.USAGE, "a .csv file holds one output"),
        (["price", "map"], ExitCode.USAGE, "a table holds one output, and --output-names has 2"),
        (["none"], ExitCode.USAGE, "the output 'none' cannot be evaluated"),
    ):
        assert main([*run, "--output-names", *options]) == code
        assert said in capsys.readouterr().err
        assert not Path("a.csv").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-o", "a.txt"], ExitCode.USAGE, "are written as .npy, .npz, .csv, not as .txt"),
        (["-o", "a"], ExitCode.USAGE, ", not as that"),
        (["--checkpoint", "none"], ExitCode.ARTIFACT, "none"),
        (["--ema"], ExitCode.USAGE, "keeps no"),
        (["--end-token", "x"], ExitCode.USAGE, "--end-token needs a tokenizer"),
        (["--threads", "0"], ExitCode.USAGE, "threads"),
    ],
)
def test_what_does_not_go(
    digits: Digits,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    options: Any,
    code: int,
    said: str,
):
    predict(digits, *options, code=code)
    assert said in capsys.readouterr().err


def test_it_replaces_nothing_that_it_reads(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]
):
    predict(digits, "-o", digits.test, code=ExitCode.USAGE)
    assert "the output would replace what is read" in capsys.readouterr().err


@pytest.fixture
def table(here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The model of a table that was trained, and a table with the columns in another order."""
    net = torch.nn.Linear(3, 1)
    odtc.from_torch(net, (torch.zeros(4, 3),), "net.onnx")
    frame = pandas.DataFrame(np.random.default_rng(0).random((20, 4)), columns=[*"abcy"])
    frame.to_csv("train.csv", index=False)
    frame[[*"cyba"]].assign(id=1).to_csv("new.csv", index=False)
    compiled = ["compile", "net.onnx", "--batch", "4", "--loss", "mse", "-o", "net.odtc"]
    assert main([*compiled, "--normalize", "train.csv"]) == ExitCode.OK
    train = ["train", "net.odtc", "--data", "train.csv", "--lr", "0.1"]
    assert main([*train, "--export", "t.onnx", "--checkpoint", "c"]) == ExitCode.OK
    capsys.readouterr()
    return here / "new.csv"


def test_a_model_has_the_columns_that_it_was_trained_with(
    table: Path, capsys: pytest.CaptureFixture[str]
):
    found = []
    for words in (["net.odtc", "--checkpoint", "c"], ["t.onnx"]):
        assert main(["predict", *words, "--data", str(table)]) == ExitCode.OK
        said = capsys.readouterr()
        assert "not read, as they are not inputs: id" in said.err
        found.append([float(line) for line in said.out.splitlines()[1:]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    onnx_rows = pandas.read_csv("train.csv")[[*"abc"]].to_numpy(np.float32)
    (expected,) = onnxruntime.InferenceSession("t.onnx").run(None, {"input": onnx_rows})
    np.testing.assert_allclose(found[1], expected[:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpoint", "c"], "--checkpoint is for artifacts, and t.onnx is an ONNX model"),
        (["--device", "adb://x"], "--device is for artifacts"),
        (["--threads", "1"], "--threads is for artifacts"),
        (["--output-names", "none"], "the output 'none' cannot be evaluated"),
    ],
)
def test_what_a_model_does_not_take(
    table: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
):
    run = ["predict", "t.onnx", "--data", str(table), *options]
    assert main(run) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_files_that_are_no_models(here: Path, capsys: pytest.CaptureFixture[str]):
    Path("bad.onnx").write_bytes(b"no model")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "length"])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "open.onnx")
    for name, code, said in (
        ("bad.onnx", ExitCode.MODEL, "not a readable ONNX file"),
        ("none.onnx", ExitCode.MODEL, "not a readable ONNX file"),
        ("open.onnx", ExitCode.UNSUPPORTED, "the input x has sizes that are not fixed"),
    ):
        assert main(["predict", name, "--data", "x.npz"]) == code
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "loss", "columns"),
    [
        (3, "cross-entropy", ["class", "output0", "output1", "output2"]),
        (1, "bce-with-logits", ["class", "output"]),
        (1, "mse", ["output"]),
    ],
)
def test_an_exported_file_has_the_classes_of_its_artifact(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    width: int,
    loss: str,
    columns: list[str],
):
    x = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
    y = np.arange(12) % max(width, 2)
    np.savez("d.npz", x=x, y=y if width > 1 else y.astype(np.float32)[:, None])
    net = torch.nn.Linear(4, width)
    odtc.from_torch(net, (torch.zeros(4, 4),), "net.onnx", output_names=["output"])
    compiled = ["compile", "net.onnx", "--batch", "4", "--loss", loss, "-o", "net.odtc"]
    assert main(compiled) == ExitCode.OK
    run = ["train", "net.odtc", "--data", "d.npz", "--lr", "0.1", "--export", "t.onnx"]
    assert main([*run, "--checkpoint", "c"]) == ExitCode.OK
    capsys.readouterr()
    tables = []
    for words in (["net.odtc", "--checkpoint", "c"], ["t.onnx"]):
        assert main(["predict", *words, "--data", "d.npz"]) == ExitCode.OK
        tables.append([*csv.reader(io.StringIO(capsys.readouterr().out))])
    assert tables[0][0] == tables[1][0] == columns
    if columns[0] == "class":
        assert [row[0] for row in tables[0]] == [row[0] for row in tables[1]]
    # A file that is trained for something else says that alone.
    assert main(["compile", "t.onnx", "--batch", "4", "--loss", "mse", "-o", "m.odtc"]) == 0
    with odtc.load("m.odtc").trainer() as trainer:
        trainer.export_onnx("other.onnx")
    capsys.readouterr()
    assert main(["predict", "other.onnx", "--data", "d.npz"]) == ExitCode.OK
    assert not capsys.readouterr().out.startswith("class")


@pytest.mark.parametrize("said", ['{"output": true}', '{"output": -1}', '{"o": 3}', "[3]", "{"])
def test_what_a_file_says_wrongly_of_its_classes(
    here: Path, capsys: pytest.CaptureFixture[str], said: str
):
    net = torch.nn.Linear(4, 3)
    odtc.from_torch(net, (torch.zeros(4, 4),), "net.onnx", output_names=["output"])
    model = onnx.load("net.onnx")
    onnx.helper.set_model_props(model, {"class_counts": said})
    onnx.save(model, "net.onnx")
    np.savez("d.npz", x=np.zeros((2, 4), np.float32))
    assert main(["predict", "net.onnx", "--data", "d.npz"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[0] == "output0,output1,output2"
