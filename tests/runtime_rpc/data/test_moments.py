"""Means and deviations of data: those of numpy, however the data is stored."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from odtc.core.errors import DataError, MissingPackageError, OdtcError
from odtc.runtime_rpc.data import moments
from odtc.runtime_rpc.data.moments import Moments, moments_of

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 3, 6, 5), dtype=np.uint8)
# Far from zero: sums of squares alone would lose all digits.
ROWS = (1e5 + np.random.default_rng(1).standard_normal((500, 4))).astype(np.float32)


def assert_moments(path: Path, wanted: np.ndarray) -> None:
    found = moments_of(path)
    np.testing.assert_allclose(found.means, wanted.mean(axis=0, dtype=np.float64), rtol=1e-9)
    np.testing.assert_allclose(found.deviations, wanted.std(axis=0, dtype=np.float64), rtol=1e-7)


def by_channel(pixels: np.ndarray) -> np.ndarray:
    return np.moveaxis(pixels, 1, -1).reshape(-1, 3) / 255


@pytest.mark.parametrize("piece", [90, 1 << 20])
def test_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int):
    monkeypatch.setattr(moments, "_PIECE", piece)
    np.savez(tmp_path / "d.npz", x=PIXELS, y=np.zeros(40))
    assert_moments(tmp_path / "d.npz", by_channel(PIXELS))
    save_file({"image": np.moveaxis(PIXELS, 1, -1).copy()}, tmp_path / "d.safetensors")
    assert_moments(tmp_path / "d.safetensors", by_channel(PIXELS))
    (tmp_path / "rows").mkdir()
    np.save(tmp_path / "rows" / "x.npy", ROWS)
    np.save(tmp_path / "rows" / "y.npy", np.zeros((500, 2), np.float32))
    assert_moments(tmp_path / "rows", ROWS)


def test_columns_of_a_table_but_for_those_of_labels(tmp_path: Path):
    lines = [",".join(f"{value!r}" for value in row.tolist()) + ",7,8" for row in ROWS]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,c,d,y0,y1", *lines]))
    assert_moments(tmp_path / "d.csv", ROWS)
    assert moments_of(tmp_path / "d.csv").columns == ("a", "b", "c", "d")


def test_images_of_all_classes(tmp_path: Path):
    for number, pixels in enumerate(PIXELS):
        folder = tmp_path / str(number % 3)
        folder.mkdir(exist_ok=True)
        Image.fromarray(np.moveaxis(pixels, 0, -1)).save(folder / f"{number}.png")
    assert_moments(tmp_path, by_channel(PIXELS))


def test_what_is_the_same_everywhere_has_the_deviation_one(tmp_path: Path):
    np.savez(tmp_path / "d.npz", x=np.full((9, 2), 3.0))
    assert moments_of(tmp_path / "d.npz") == Moments((3.0, 3.0), (1.0, 1.0))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": PIXELS / np.float32(255)}, "no arrays may be an input"),
        ({"a": PIXELS, "b": PIXELS}, "2 arrays may be an input"),
        ({"x": np.array([[np.inf, 1.0]])}, "not finite"),
    ],
)
def test_what_has_none_is_told(tmp_path: Path, arrays: dict[str, np.ndarray], said: str):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=said):
        moments_of(tmp_path / "d.npz")


def test_a_folder_and_a_file_that_are_none_are_told(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "d.npz").write_text("no arrays")
    for path in (tmp_path / "empty", tmp_path / "d.npz"):
        with pytest.raises(OdtcError) as caught:
            moments_of(path)
        assert not isinstance(caught.value, MissingPackageError)


@pytest.mark.parametrize("content", [b"", b"cut"], ids=["empty", "cut"])
def test_an_image_that_cannot_be_read_is_no_dead_end(tmp_path: Path, content: bytes):
    """The option that leaves it out is of a run, and `odtc compile` refuses it."""
    (tmp_path / "a").mkdir()
    Image.fromarray(np.moveaxis(PIXELS[0], 0, -1)).save(tmp_path / "a" / "0.png")
    whole = (tmp_path / "a" / "0.png").read_bytes()
    # Its ends are whole: it shows when it is decoded.
    damaged = whole[:50] + bytes(9) + whole[59:]
    (tmp_path / "a" / "1.png").write_bytes(damaged if content else content)
    with pytest.raises(DataError) as caught:
        moments_of(tmp_path)
    assert "1.png" in str(caught.value)
    assert "skip" not in str(caught.value)
    assert "mean=0.485:0.456:0.406,std=" in (caught.value.hint or "")


def test_what_takes_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moments, "_SECONDS", 0.0)
    monkeypatch.setattr(moments, "_PIECE", 90)
    (tmp_path / "images" / "a").mkdir(parents=True)
    for number, pixels in enumerate(PIXELS):
        image = Image.fromarray(np.moveaxis(pixels, 0, -1))
        image.save(tmp_path / "images" / "a" / f"{number}.png")
    np.savez(tmp_path / "d.npz", x=PIXELS)
    told: list[str] = []
    moments_of(tmp_path / "images", told.append)
    assert told[7] == f"read the images of {tmp_path / 'images'}: 7 of 40"
    told.clear()
    moments_of(tmp_path / "d.npz", told.append)
    assert told[-1] == f"read x of {tmp_path / 'd.npz'}, in parts: 39 of 40"


@pytest.mark.parametrize(
    ("head", "said"),
    [(",a,y", "a column has no name"), ("a,a,y", "the column a appears twice")],
)
def test_a_table_whose_columns_cannot_be_told(head: str, said: str, tmp_path: Path):
    """Pandas writes the numbers of rows as a column without a name."""
    (tmp_path / "d.csv").write_text(f"{head}\n1,2,0\n3,4,1\n")
    with pytest.raises(DataError, match=said):
        moments_of(tmp_path / "d.csv")
