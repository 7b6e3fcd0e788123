"""Files that people have samples in and that are not read: what each is, and how it is converted.

Told by their first bytes where these show it, else by the ending of the name.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from odtc.core.disk.file_kinds import kind_of
from odtc.core.errors import DataError
from odtc.runtime_rpc.data.wanted import Wanted

READ = (
    ".npz, a folder of .npy, .safetensors, .csv and .tsv (also .gz, .bz2, .zst), .parquet, .jsonl "
    "of text, or a folder with a folder of images for each class"
)
"""What is read, for a message."""
_SAVE = "numpy.savez('data.npz', x=x, y=y)"
_PICKLE = (
    "a pickle can run any code when it is loaded, so odtc loads none; if you trust it, "
    f"save its arrays in Python: {_SAVE}"
)
_GZIP = b"\x1f\x8b"
_HEAD = 16
_REMOTE = ("http:/", "https:/", "ftp:/", "s3:/", "gs:/", "hf:/")


@dataclass(frozen=True)
class Foreign:
    """A kind of files that is not read.

    Attributes:
        what: it is.
        hint: how it becomes what is read.
        begins: first bytes that show it, decompressed where they are compressed by gzip.
        endings: of the names of files, where nothing else shows what they are.
        names: what a file of the kind is called without its ending.
    """

    what: str
    hint: str
    begins: tuple[bytes, ...] = ()
    endings: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


_KINDS = (
    Foreign(
        "a pickle, as of CIFAR",
        f"{_PICKLE}; of CIFAR-10: d = pickle.load(open(PATH, 'rb'), encoding='bytes'); x = "
        "d[b'data'].reshape(-1, 3, 32, 32); y = numpy.array(d[b'labels'])",
        names=tuple([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]),
    ),
    Foreign(
        "a file of torch.save",
        "load it in Python by torch.load(PATH, weights_only=True), and give its tensors to "
        f"trainer.fit((x, y)) or save them: {_SAVE}; a module is exported by odtc export",
        endings=(".pt", ".pth"),
    ),
    Foreign(
        "a pickle",
        _PICKLE,
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        (".pkl", ".pickle"),
    ),
    Foreign(
        "an IDX file, as of MNIST",
        "read it in Python: x = numpy.frombuffer(gzip.open(IMAGES).read(), numpy.uint8, "
        "offset=16).reshape(-1, 1, 28, 28); y = numpy.frombuffer(gzip.open(LABELS).read(), "
        f"numpy.uint8, offset=8); {_SAVE}",
        (b"\0\0\x08\x01", b"\0\0\x08\x03"),
    ),
    Foreign(
        "a single array",
        "give the folder that it is in, with an array for each input and label, such as x.npy and "
        "y.npy",
        (b"\x93NUMPY",),
    ),
    Foreign(
        "an HDF5 file",
        f"with h5py.File(PATH) as f: x, y = f['x'][:], f['y'][:]; {_SAVE}",
        (b"\x89HDF",),
        (".h5", ".hdf5"),
    ),
    Foreign(
        "a file of MATLAB",
        f"d = scipy.io.loadmat(PATH); x, y = d['x'], d['y']; {_SAVE}",
        (b"MATLAB",),
        (".mat",),
    ),
    Foreign(
        "a spreadsheet",
        "pandas.read_excel(PATH).to_csv('data.csv', index=False), or save it as CSV",
        endings=(".xlsx", ".xls", ".ods"),
    ),
    Foreign(
        "an Arrow file, as of Hugging Face datasets",
        "datasets.Dataset.from_file(PATH).to_parquet('data.parquet'), or of Feather "
        "pandas.read_feather(PATH).to_parquet('data.parquet')",
        (b"ARROW1", b"FEA1"),
        (".arrow", ".feather"),
    ),
    Foreign(
        "JSON",
        "pandas.read_json(PATH).to_parquet('data.parquet') where it has rows of numbers; text for "
        "a language model goes as .jsonl, a document a line",
        endings=(".json",),
    ),
    Foreign(
        "plain text",
        "name it .csv where it has a line of names and commas, .tsv with tabs; else "
        "pandas.read_csv(PATH, sep=None, engine='python').to_csv('data.csv', index=False); text "
        'for a language model goes as .jsonl, with lines such as {"text": "..."}',
        endings=(".txt", ".dat", ".data", ".text"),
    ),
    Foreign(
        "an ARFF file",
        "pandas.DataFrame(scipy.io.arff.loadarff(PATH)[0]).to_parquet('data.parquet')",
        endings=(".arff",),
    ),
    Foreign(
        "a file of LIBSVM",
        f"x, y = sklearn.datasets.load_svmlight_file(PATH); x = x.toarray(); {_SAVE}",
        endings=(".svm", ".libsvm"),
    ),
    Foreign(
        "a file of records of TensorFlow",
        f"read them by tensorflow.data.TFRecordDataset, and save their arrays: {_SAVE}",
        endings=(".tfrecord", ".tfrecords"),
    ),
    Foreign(
        "a database",
        "pandas.read_sql(QUERY, sqlite3.connect(PATH)).to_parquet('data.parquet')",
        (b"SQLite format 3",),
        (".db", ".sqlite"),
    ),
    Foreign(
        "an archive",
        "unpack it, and give what is in it",
        (b"7z\xbc\xaf", b"Rar!"),
        (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".7z", ".rar"),
    ),
    Foreign(
        "an image",
        "give the folder that has a folder of images for each class",
        (b"\xff\xd8\xff", b"\x89PNG", b"GIF8"),
        (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"),
    ),
    Foreign(
        "a sound",
        "compute features of sounds, and save them as arrays: docs/howto/keywords.md does so",
        (b"fLaC", b"OggS", b"ID3"),
        (".wav", ".flac", ".mp3", ".ogg"),
    ),
)
_ADDRESS = Foreign("the address of something on a network", "download it, and give the file")
# What is there instead of the data, whatever the file is called.
_INSTEAD = (
    Foreign(
        "a web page",
        "download the file itself, not the page that shows it",
        (b"<!doctype html", b"<html"),
    ),
    Foreign("a pointer of Git LFS", "fetch the file itself: git lfs pull", (b"version https://",)),
)
_TORCH = "a file of torch.save"


def is_elsewhere(path: Path) -> bool:
    """Whether the data is somewhere on a network: it is an address, or what a download left."""
    return _elsewhere(path) is not None


def refuse_elsewhere(path: Path, wanted: Wanted) -> NoReturn:
    """Says so.

    Raises:
        DataError: always.
    """
    del wanted
    found = _elsewhere(path)
    assert found
    raise DataError(f"the data is {found.what}", where=str(path), hint=found.hint)


def _elsewhere(path: Path) -> Foreign | None:
    if str(path).startswith(_REMOTE) and not path.exists():
        return _ADDRESS
    head = _head(path).lower() if path.is_file() else b""
    return next((kind for kind in _INSTEAD if any(map(head.startswith, kind.begins))), None)


def is_foreign(path: Path) -> bool:
    """Whether it is a file of the table."""
    return _foreign_in(path) is not None


def refuse(path: Path, wanted: Wanted) -> NoReturn:
    """Says what it is.

    Raises:
        DataError: always.
    """
    del wanted
    found = _foreign_in(path)
    assert found
    raise DataError(f"it is {found.what}, which is not read", where=str(path), hint=found.hint)


def _foreign_in(path: Path) -> Foreign | None:
    if not path.is_file():
        return None
    head, name = _head(path), path.name.lower()
    known = kind_of(path)
    if known is not None and known.what != _TORCH and not known.what.startswith("an HDF5"):
        # What is given in the place of another thing is told as that.
        return None
    for kind in _KINDS:
        if path.name in kind.names or any(map(head.startswith, kind.begins)):
            return kind
    if known is not None and known.what == _TORCH:
        return next(kind for kind in _KINDS if kind.what == _TORCH)
    return next((kind for kind in _KINDS if name.endswith(kind.endings)), None) if name else None


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(_GZIP):
            with gzip.open(path) as unpacked:
                return unpacked.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return b""
    return head
