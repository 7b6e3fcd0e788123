"""Files that people have samples in and that are not read: each is told what it is."""

import gzip
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather

import odtc
from odtc.core.errors import DataError
from odtc.runtime_rpc.data.readers import read_data
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(8)
IDX = struct.pack(">IIII", 2051, 1, 28, 28) + bytes(784)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("foreign"), "cross-entropy")


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/0.png", b"")


def torch_saved(path: Path) -> None:
    torch.save({"x": torch.tensor(X)}, path)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def content(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


# A file's name: what writes it, what it is, and how it becomes what is read.
FILES = {
    "train-images-idx3-ubyte.gz": (
        content(gzip.compress(IDX)),
        "an IDX file, as of MNIST",
        "offset=16",
    ),
    "train-labels-idx1-ubyte": (
        content(b"\0\0\x08\x01" + IDX),
        "an IDX file, as of MNIST",
        "numpy.savez",
    ),
    "data_batch_1": (content(pickle.dumps({b"data": X})), "a pickle, as of CIFAR", "b'labels'"),
    "data.pkl": (content(pickle.dumps(X)), "a pickle", "can run any code"),
    "unnamed": (content(pickle.dumps(X, 2)), "a pickle", "odtc loads none"),
    "x.npy": (lambda path: np.save(path, X), "a single array", "such as x.npy and y.npy"),
    "d.h5": (content(b"\x89HDF\r\n\x1a\n"), "an HDF5 file", "h5py.File(PATH)"),
    "d.mat": (content(b"MATLAB 5.0 MAT-file"), "a file of MATLAB", "scipy.io.loadmat"),
    "d.xlsx": (zipped, "a spreadsheet", "pandas.read_excel(PATH).to_csv"),
    "d.feather": (
        lambda path: feather.write_feather(pa.table({"a": [1]}), path),
        "an Arrow file, as of Hugging Face datasets",
        "pandas.read_feather(PATH).to_parquet",
    ),
    "d.json": (text("[]"), "JSON", "pandas.read_json"),
    "d.txt": (text("a,b\n"), "plain text", "name it .csv"),
    "iris.data": (text("5.1,3.5,Iris-setosa\n"), "plain text", "sep=None"),
    "d.arff": (text("@relation iris"), "an ARFF file", "scipy.io.arff"),
    "d.svm": (text("1 1:0.5"), "a file of LIBSVM", "load_svmlight_file"),
    "d.tfrecord": (content(bytes(20)), "a file of records of TensorFlow", "TFRecordDataset"),
    "d.db": (content(b"SQLite format 3\0"), "a database", "pandas.read_sql"),
    "images.zip": (zipped, "an archive", "unpack it"),
    "images.tar.gz": (content(gzip.compress(bytes(1024))), "an archive", "unpack it"),
    "0.jpg": (content(b"\xff\xd8\xff\xe0"), "an image", "a folder of images for each class"),
    "0.wav": (content(b"RIFF"), "a sound", "docs/howto/keywords.md"),
    "d.pt": (torch_saved, "a file of torch.save", "weights_only=True"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_read_is_told_what_it_is(
    artifact: odtc.Artifact, tmp_path: Path, name: str
):
    write, what, hint = FILES[name]
    write(tmp_path / name)
    with pytest.raises(DataError) as error:
        read_data(tmp_path / name, artifact.manifest)
    assert error.value.what == f"it is {what}, which is not read"
    assert hint in (error.value.hint or "")


def test_what_nobody_knows_is_told_what_is_read(artifact: odtc.Artifact, tmp_path: Path):
    (tmp_path / "d.xyz").write_bytes(b"xyz")
    with pytest.raises(DataError, match=r"not an \.npz file") as error:
        read_data(tmp_path / "d.xyz", artifact.manifest)
    assert "read are .npz, a folder of .npy, .safetensors, .csv" in (error.value.hint or "")
    np.savez(tmp_path / "o.npz", x=X, y=Y.astype(object))
    with pytest.raises(DataError, match="Object arrays cannot be loaded") as error:
        read_data(tmp_path / "o.npz", artifact.manifest)
    assert "save numbers, y.astype(int), or strings" in (error.value.hint or "")


@pytest.mark.parametrize("name", ["d.csv", "d.npz", "d.parquet", "d.safetensors"])
def test_what_a_download_left_is_told(artifact: odtc.Artifact, tmp_path: Path, name: str):
    with pytest.raises(DataError, match="the data is the address of something on a network"):
        read_data(Path("https://example.org") / name, artifact.manifest)
    for content, what in (
        ("<!DOCTYPE html>\n<html>", "a web page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a pointer of Git"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=f"the data is {what}"):
            read_data(tmp_path / name, artifact.manifest)


def test_arrays_under_another_name_are_read(artifact: odtc.Artifact, tmp_path: Path):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    (tmp_path / "d.npz").rename(tmp_path / "arrays")
    assert len(read_data(tmp_path / "arrays", artifact.manifest)) == 8
