"""Images that cannot be read may be left out: counted, named, and the same ones in each run."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError

BATCH = 4


def png(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def damaged(content: bytes) -> bytes:
    """With a bit flipped in its middle: what is at its ends is whole."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def folder(path: Path, *, is_broken: bool = True) -> Path:
    files = {f"{name}/{n}.png": png(n) for name in ("cat", "dog") for n in range(5)}
    if is_broken:
        files |= {"cat/2.png": png(2)[:40], "dog/page.jpg": b"<html>", "dog/4.png": damaged(png(4))}
    else:
        del files["cat/2.png"], files["dog/4.png"]
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("skip")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(108, 2))
    odtc.from_torch(net, (torch.zeros(BATCH, 3, 6, 6),), path / "net.onnx")
    odtc.compile(path / "net.onnx", batch=BATCH, loss="cross-entropy").save(path / "net.odtc")
    return path / "net.odtc"


SAID = "left out are 3 images that cannot be read: cat/2.png, dog/4.png, dog/page.jpg"


@pytest.mark.filterwarnings(
    "ignore:.* fill no batch", "ignore:.* cannot be read", "ignore:.* is trained"
)
def test_a_run_leaves_them_out_and_goes_on_to_the_same_bits(artifact: Path, tmp_path: Path):
    data, whole = folder(tmp_path / "d"), folder(tmp_path / "w", is_broken=False)
    found = {}
    for name, given in {"broken": data, "whole": whole}.items():
        trainer = odtc.load(artifact).trainer(threads=1)
        history = trainer.fit(given, lr=0.1, epochs=4, validation=given, skip_broken=True)
        found[name] = history.rows
    assert found["broken"] == found["whole"]
    cut = tmp_path / "cut.ckpt"
    given = {"lr": 0.1, "validation": data, "skip_broken": True}
    first = odtc.load(artifact).trainer(threads=1)
    first.fit(data, steps=3, callbacks=[odtc.Checkpoint(cut)], **given)
    again = odtc.load(artifact).trainer(threads=1)
    assert again.fit(data, epochs=4, resume=str(cut), **given)["loss"][-1:] == [
        found["whole"][-1]["loss"]
    ]


def test_they_are_counted_and_named(artifact: Path, tmp_path: Path):
    data, trainer = folder(tmp_path / "d"), odtc.load(artifact).trainer(threads=1)
    with pytest.warns(UserWarning, match=re.escape(SAID)):
        trainer.fit(data, lr=0.1, skip_broken=True)
    # What only a decoder finds is not looked for where it ends the run anyway.
    with pytest.raises(DataError, match=r"2 files are not readable images: cat/2\.png") as error:
        trainer.fit(data, lr=0.1)
    assert "leave them out by skip_broken=True, --skip-broken" in (error.value.hint or "")


def test_the_command_line_leaves_them_out_of_all_data(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data, test = folder(tmp_path / "d"), folder(tmp_path / "t")
    words = ["train", str(artifact), "--data", str(data), "--lr", "0.1", "--json"]
    assert main([*words, "--eval-data", str(test), "--skip-broken"]) == 0
    read = capsys.readouterr()
    assert read.err.count(SAID) == 2
    assert "eval_loss" in json.loads(read.out)
    assert main(words) == 5


def test_a_folder_without_any_that_is_whole_is_refused(artifact: Path, tmp_path: Path):
    for name in ("cat/0.png", "dog/0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"<html>")
    with pytest.raises(DataError, match="no image of it can be read: 2 files are not readable"):
        odtc.load(artifact).trainer(threads=1).fit(tmp_path, lr=0.1, skip_broken=True)


def test_other_data_has_nothing_to_leave_out(artifact: Path):
    x, y = np.zeros((BATCH, 3, 6, 6), np.float32), np.zeros(BATCH, np.int32)
    with pytest.warns(UserWarning, match="it is not a folder of images: nothing of it is left out"):
        odtc.load(artifact).trainer(threads=1).fit((x, y), lr=0.1, skip_broken=True)


@pytest.mark.parametrize("skip_broken", [False, True])
def test_numbers_of_32_bits_are_refused_before_the_first_step(
    artifact: Path, tmp_path: Path, skip_broken: bool
):
    data = folder(tmp_path / "d", is_broken=False)
    Image.fromarray(np.zeros((6, 6), np.float32)).save(data / "dog" / "depth.tif")
    trainer = odtc.load(artifact).trainer(threads=1)
    with pytest.raises(DataError, match="numbers of 32 bits"):
        trainer.fit(data, lr=0.1, skip_broken=skip_broken)
    assert not trainer.steps
