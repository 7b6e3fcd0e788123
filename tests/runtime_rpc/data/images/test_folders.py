"""Folders of images: what is in them beside images is said, and what is none is refused."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from odtc.core.errors import DataError
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Classes, Role, TensorSpec
from odtc.runtime_rpc.data.images.reading import Images, read_images
from odtc.runtime_rpc.data.wanted import Wanted

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 7, 3), np.uint8)
INPUT = Argument(Role.INPUT, TensorSpec("x", (4, 3, 6, 7)), place=Place(0))


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, kind)
    return file.getvalue()


PNG, JPEG = encoded("PNG"), encoded("JPEG")


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def read(path: Path, classes: int = 2) -> Images:
    label = Argument(Role.LABEL, TensorSpec("y", (4,), "int32"), Classes(classes), place=Place(0))
    return read_images(path, Wanted([INPUT], [label]))


GOOD = {"cat/0.png": PNG, "cat/1.JPG": JPEG, "dog/0.png": PNG, "dog/1.gif": encoded("GIF")}


def test_files_that_are_no_images_by_their_names_are_said(tmp_path: Path):
    others = {"cat/notes.txt": b"", "dog/a.heic": b"", "dog/.DS_Store": b"", "Thumbs.db": b""}
    found = read(folder(tmp_path, GOOD | others))
    assert len(found) == 4
    assert found.notes[1:] == (
        f"{tmp_path}: left out are 2 files whose names are no images': cat/notes.txt, dog/a.heic",
    )
    assert not read(folder(tmp_path / "in" / "it", GOOD)).notes[1:]


def test_files_that_are_no_images_are_refused_with_their_names(tmp_path: Path):
    bad = {
        "cat/page.jpg": b"<html>",
        "cat/zero.png": b"",
        "dog/cut.png": PNG[: len(PNG) // 2],
        "dog/cut.jpg": JPEG[: len(JPEG) // 2],
    }
    # Programs write more behind an image.
    whole = {"dog/more.jpg": JPEG + bytes(2000), "dog/more.png": PNG + bytes(2000)}
    path = folder(tmp_path, GOOD | whole)
    assert len(read(path)) == 6
    with pytest.raises(DataError) as error:
        read(folder(path, bad))
    names = "cat/page.jpg, cat/zero.png, dog/cut.jpg, dog/cut.png"
    assert error.value.what == f"4 files are not readable images: {names}"
    for name in bad:
        (path / name).rename((path / name).with_name(f".{Path(name).name}"))
    assert len(read(path)) == 6


@pytest.mark.parametrize(
    "parts", [("train", "val"), ("Training", "Test"), ("train", "test", "dev")]
)
def test_parts_of_a_data_set_are_no_classes(tmp_path: Path, parts: tuple[str, ...]):
    files = {f"{part}/{name}": content for part in parts for name, content in GOOD.items()}
    with pytest.raises(DataError, match="its folders are parts of a data set, ") as error:
        read(folder(tmp_path, files), len(parts))
    assert f"give one of them, such as {tmp_path / sorted(parts)[0]}" in (error.value.hint or "")
    # A class may be called so.
    train = {"bus/0.png": PNG, "train/0.png": PNG}
    assert read(folder(tmp_path / "vehicles", train)).class_names == ("bus", "train")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"annotations/instances.json": b"{}", "train2017/0.jpg": JPEG}, "annotations has no imag"),
        (
            {"Annotations/0.xml": b"", "JPEGImages/0.jpg": JPEG},
            "1 file whose name is no image's: 0",
        ),
        ({"images/0.jpg": JPEG, "labels/0.txt": b"0 .5"}, "the folder labels has no images, but 1"),
    ],
)
def test_annotations_are_no_class(tmp_path: Path, files: dict[str, bytes], message: str):
    """As COCO, Pascal VOC and YOLO have them."""
    with pytest.raises(DataError, match=message) as error:
        read(folder(tmp_path, files))
    assert "Boxes, masks and captions are given as arrays" in (error.value.hint or "")


def test_a_class_may_be_empty(tmp_path: Path):
    (tmp_path / "cat").mkdir()
    found = read(folder(tmp_path, {"dog/0.png": PNG}))
    assert found.class_names == ("cat", "dog")


WITHOUT = {
    "no folders": ({"cat.0.png": PNG}, "it has 1 .png", "its images lie in no folder of a class"),
    "tables": ({"a.csv": b"", "b.csv": b""}, "it has 2 .csv", "give one of its files"),
    "sounds": ({"yes/0.wav": b"", "no/0.wav": b""}, "it has 2 .wav", "compute features of sounds"),
    "Hugging Face": (
        {"state.json": b"{}", "data-00000-of-00001.arrow": b""},
        "it has 1 .json, 1 .arrow",
        "datasets.load_from_disk(PATH)",
    ),
    "nothing": ({}, "it has no files", "make a folder of images for each class"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_folder_without_images_is_told_what_it_has(tmp_path: Path, name: str):
    files, message, hint = WITHOUT[name]
    with pytest.raises(DataError) as error:
        read(folder(tmp_path, files))
    assert error.value.what.endswith(message)
    assert hint in (error.value.hint or "")


def test_rare_classes_are_said(tmp_path: Path):
    files = {f"cat/{n}.png": PNG for n in range(11)} | {"dog/0.png": PNG}
    (said,) = read(folder(tmp_path, files)).notes_of_training
    assert said.startswith(f"{tmp_path}: 11 of 12 samples are of class 0: who always says 0 has an")
