"""Tables: what is read of them, and what is wrong with them."""

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import odtc
from odtc.core.errors import DataError, OdtcError
from odtc.runtime_rpc.data.objects.given import source_of
from odtc.runtime_rpc.data.readers import read_data, read_inputs
from odtc.runtime_rpc.data.samples import Samples
from odtc.runtime_rpc.data.tables import csv_files, parquet_files
from odtc.runtime_rpc.data.wanted import ReadOptions
from tests.runtime_rpc.loop.models import CLASSES, SAMPLES, WIDTH, classed, step_of

X, Y = classed()
NAMES = [*"abcdef"]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("tables"), "cross-entropy")


TABLES = {
    "an empty cell": (
        "a,b,c,d,e,f,y\n1,2,3,4,5,6,0\n1,,3,4,5,6,1\n",
        "1 of 2 cells of the column b are empty or not a number, the first in row 2",
    ),
    "no number": (
        "a,b,c,d,e,f,y\n1,2,3,4,5,6,0\n1,2,x3,4,5,6,0\n1,2,y,4,5,6,0\n",
        "2 of 3 cells of the column c are not numbers, the first in row 2: 'x3'",
    ),
    "a cell too few": ("a,b\n1,2\n1\n", r"Row #3: Expected 2 columns, got 1"),
    "nothing": ("", "the file has no line of names"),
    "UTF-16 without a mark": ("\0a\0,\0b\0\n\0", r"bytes that no text in UTF-8 has \(0x00\)"),
    "dates": ("a,b,c,d,e,f,y\n2020-01-02,2,3,4,5,6,0\n", "the column a has cells of type date32"),
    "numbers alone": ("1,2,3\n4,5,6\n", "the first line has numbers, 1, 2, 3, where the names"),
    "numbers of rows": (
        "Id,a,b,c,d,e,f,y\n1,1,2,3,4,5,6,0\n",
        r"has 7 columns, Id, a, b, .*\n.*\n.*the column Id seems to number the rows",
    ),
    "decimal commas": ("a;b;y\n1,5;2,5;0\n", "has one name, with ';' in it, and no ','"),
    "semicolons": ("a;b;c;d;e;f;y\n1;2;3;4;5;6;0\n", "has one name, with ';' in it, and no ','"),
    "names alone": ("a,b,c,d,e,f,y\n", "the table has no rows"),
    "two labels": ("y,b,c,d,e,f,target\n1,2,3,4,5,6,0\n", "the label may be y or target"),
    "a feature y2": ("y2,b,c,d,e,f,target\n1,2,3,4,5,6,0\n", "the label may be y2 or target"),
    "a label of 33 bits": (
        "a,b,c,d,e,f,y\n1,2,3,4,5,6,4294967297\n",
        r"label 4294967297 is outside \[0, 3\)",
    ),
    "beyond float32": ("a,b,c,d,e,f,y\n1e39,2,3,4,5,6,0\n", r"up to 1e\+39 do not fit float32"),
    "too few": ("a,b,y\n1,2,0\n", "input has 2 columns, a, b; the step takes 6 numbers per sample"),
    "no label": ("a,b,c,d,e,f\n1,2,3,4,5,6\n", r"no column is called as the label, label \(or y\)"),
    "rows": (
        "a,b\n1,2,3\n",
        r"not a readable CSV file \(CSV parse error: Row #2: Expected 2 columns, got 3",
    ),
    "twice, without a name": (",,y\n1,2,0\n", r"the column \(no name\) appears twice"),
    "an index without a name": (
        ",a,y\n1,2,0\n",
        r"input has 2 columns, \(no name\), a; the step takes",
    ),
    "twice": ("a,a,y\n1,2,0\n", "the column a appears twice"),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_wrong_with_a_table_is_said(artifact: odtc.Artifact, tmp_path: Path, name: str):
    text, message = TABLES[name]
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(OdtcError, match=message):
        artifact.trainer(threads=1).fit(tmp_path / "d.csv", lr=0.1)


def test_a_small_file_that_becomes_more_than_the_memory_is_not_read(
    artifact: odtc.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A column of one number takes some bytes in a Parquet file, however long it is."""
    column = pa.array(np.zeros(1 << 20, np.int8))
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table(dict.fromkeys("abcdefy", column)), path)
    assert path.stat().st_size < 1 << 16
    read_data(path, artifact.manifest)
    monkeypatch.setattr(parquet_files, "available_bytes", lambda: 13 << 20)
    message = "1048576 rows of 7 columns take 14 MiB; 13 MiB of memory are left"
    with pytest.raises(DataError, match=message):
        read_data(path, artifact.manifest)


def test_an_index_of_a_table_without_a_name_is_told(artifact: odtc.Artifact, tmp_path: Path):
    path = tmp_path / "d.csv"
    pd.DataFrame(X, columns=NAMES).assign(y=Y).to_csv(path)
    source = read_inputs(path, artifact.manifest, columns={"input": NAMES})
    assert source.notes == (
        f"{path}: not read, as they are not inputs: (no name); the step takes input",
    )


def test_an_index_in_a_file_is_said_where_it_is_an_input(artifact: odtc.Artifact, tmp_path: Path):
    x, y = classed()
    frame = pd.DataFrame(x, columns=[*"abcdef"]).assign(label=y)
    said = {"b": "the index of a DataFrame (b) is read as an input", "label": "", None: ""}
    for name, expected in said.items():
        path = tmp_path / f"{name}.parquet"
        (frame.set_index(name) if name else frame).to_parquet(path)
        notes = read_data(path, artifact.manifest).notes
        assert [expected in note for note in notes] == [True] * bool(expected)


def test_hints_of_files_are_of_no_frame(artifact: odtc.Artifact, tmp_path: Path):
    path = tmp_path / "d.csv"
    for cell in ("", "x"):
        path.write_text(f"a,b,c,d,e,f,y\n1,2,3,4,5,6,0\n1,2,{cell},4,5,6,0\n")
        with pytest.raises(DataError) as error:
            read_data(path, artifact.manifest)
        assert "fill empty cells or leave their rows out" in (error.value.hint or "")
        assert "DataFrame" not in (error.value.hint or "")


def test_several_columns_are_a_label_of_several_numbers(tmp_path: Path):
    """In the order of their numbers, wherever they stand."""
    trainer = step_of(tmp_path, "mse").trainer(threads=1)
    y = np.random.default_rng(1).random((SAMPLES, CLASSES)).astype(np.float32)
    labels = {f"y{n + 8}": y[:, n] for n in (2, 0, 1)}
    columns = {f"f{n}": X[:, n] for n in range(WIDTH)} | labels
    parquet.write_table(pa.table(columns), tmp_path / "d.parquet")
    history = trainer.fit(tmp_path / "d.parquet", lr=0.0, steps=1, validation=(X, y))
    again = trainer.fit((X, y), lr=0.0, steps=1, validation=tmp_path / "d.parquet")
    assert history["val_loss"] == again["val_loss"]


def test_a_column_of_text_is_refused_before_it_is_read(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    """A file of some kilobytes may hold any amount of it."""
    columns = {f"x{n}": X[:, n] for n in range(WIDTH)} | {"y": Y}
    columns["x0"] = pa.array(["z" * (1 << 18)] * len(Y))
    parquet.write_table(pa.table(columns), tmp_path / "d.parquet", compression="zstd")
    assert (tmp_path / "d.parquet").stat().st_size < 1 << 16
    del columns
    script = (
        "import sys, pyarrow, odtc\n"
        "from odtc.core.errors import DataError\n"
        "trainer = odtc.load(sys.argv[1]).trainer()\n"
        "try:\n"
        "    trainer.fit(sys.argv[2], lr=0.1)\n"
        "except DataError as error:\n"
        "    assert 'the column x0 has cells of type string' in str(error), error\n"
        "    print(pyarrow.default_memory_pool().max_memory())\n"
    )
    artifact.save(tmp_path / "a.odtc")
    command = [sys.executable, "-c", script, tmp_path / "a.odtc", tmp_path / "d.parquet"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 1 << 20


def rows(labels: np.ndarray | list[str]) -> str:
    """A CSV file of all samples, with labels."""
    lines = [",".join(map(str, (*x, y))) for x, y in zip(X, labels, strict=True)]
    return "\n".join([",".join([*NAMES, "y"]), *lines, ""])


def assert_is_read(artifact: odtc.Artifact, path: Path) -> None:
    source = read_data(path, artifact.manifest)
    assert isinstance(source, Samples)
    assert source.notes == ()
    np.testing.assert_array_equal(source.inputs["input"], X)
    np.testing.assert_array_equal(source.labels["label"], Y)


FORMS = {
    "d.csv.gz": lambda text: gzip.compress(text.encode()),
    "d.CSV.BZ2": lambda text: bz2.compress(text.encode()),
    "d.tsv.gz": lambda text: gzip.compress(text.replace(",", "\t").encode()),
    "utf-16.csv": lambda text: text.encode("utf-16"),
    "utf-8 with a mark.csv": lambda text: text.encode("utf-8-sig"),
    "windows.csv": lambda text: text.replace("\n", "\r\n").encode(),
    "spaces.csv": lambda text: text.replace(",", ", ").encode(),
    "in quotes.csv": lambda text: text.replace("a,b,c", '"a","b","c"').encode(),
    "another case.csv": lambda text: text.replace(",y\n", ",Label\n").encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_csv_files_are_read_as_people_have_them(artifact: odtc.Artifact, tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(FORMS[name](rows(Y)))
    assert_is_read(artifact, tmp_path / name)


def test_another_encoding_is_said_with_its_line(artifact: odtc.Artifact, tmp_path: Path):
    path = tmp_path / "d.csv"
    for text, line in (("é,b\n1,2\n", 1), ("a,b,c,d,e,f,y\n1,2,3,4,5,6,é\n", 2)):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError, match="the byte 0xe9 is not UTF-8") as error:
            read_data(path, artifact.manifest)
        assert error.value.where == f"{path}, line {line}"
        assert "iconv -f LATIN1 -t UTF-8" in (error.value.hint or "")


def test_a_compressed_file_that_becomes_more_than_the_memory_is_not_read(
    artifact: odtc.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n" + bytes(8 << 20)))
    monkeypatch.setattr(csv_files, "available_bytes", lambda: 16 << 20)
    with pytest.raises(DataError, match="it becomes more than 5 MiB"):
        read_data(tmp_path / "d.csv.gz", artifact.manifest)
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(rows(Y).encode())[:-30])
    with pytest.raises(DataError, match="not a readable CSV file"):
        read_data(tmp_path / "cut.csv.gz", artifact.manifest)


WORDS = np.array(["cat", "dog", "eel"])[Y]


def as_csv(path: Path, words: np.ndarray) -> Path:
    path.write_text(rows([f" {word} " for word in words]))
    return path


def as_parquet(path: Path, words: np.ndarray) -> Path:
    columns = {name: X[:, n] for n, name in enumerate(NAMES)}
    parquet.write_table(pa.table(columns | {"label": words}), path)
    return path


def as_categories(path: Path, words: np.ndarray) -> Path:
    pd.DataFrame(X, columns=NAMES).assign(label=pd.Categorical(words)).to_parquet(path)
    return path


def as_npz(path: Path, words: np.ndarray) -> Path:
    with path.open("wb") as file:
        np.savez(file, x=X, y=words)
    return path


NAMED = {
    "d.csv": as_csv,
    "d.parquet": as_parquet,
    "categories.parquet": as_categories,
    "d.npz": as_npz,
}


@pytest.mark.parametrize("name", NAMED)
def test_names_of_classes_are_numbered_in_their_order(
    artifact: odtc.Artifact, tmp_path: Path, name: str
):
    path = NAMED[name](tmp_path / name, WORDS)
    source = read_data(path, artifact.manifest)
    assert isinstance(source, Samples)
    assert source.class_names == ("cat", "dog", "eel")
    assert source.notes == (f"{path}: classes are 0 cat, 1 dog, 2 eel",)
    np.testing.assert_array_equal(source.labels["label"], Y)
    known = ("eel", "dog", "cat")
    again = read_data(path, artifact.manifest, class_names=known)
    assert isinstance(again, Samples)
    np.testing.assert_array_equal(again.labels["label"], 2 - Y)
    other = NAMED[name](tmp_path / f"other {name}", np.where(WORDS == "eel", "bat", WORDS))
    with pytest.raises(DataError, match="label has bat; the classes are eel, dog, cat"):
        read_data(other, artifact.manifest, class_names=known)


def test_frames_of_pandas_are_tables(artifact: odtc.Artifact):
    frame = pd.DataFrame(X, columns=NAMES, index=range(5, 5 + len(X))).assign(target=WORDS)
    pair = (frame[NAMES], frame.target)
    for data in (frame, pair, (frame[NAMES], Y)):
        source = source_of(data, artifact.manifest, ReadOptions())
        assert isinstance(source, Samples)
        np.testing.assert_array_equal(source.inputs["input"], X)
        np.testing.assert_array_equal(source.labels["label"], Y)
    frame.loc[9, "c"] = np.nan
    with pytest.raises(DataError, match="1 of 53 cells of the column c are empty or not a number"):
        source_of(frame, artifact.manifest, ReadOptions())
    held = pd.DataFrame({"x": list(X), "y": Y})
    source = source_of(held, artifact.manifest, ReadOptions())
    assert isinstance(source, Samples)
    np.testing.assert_array_equal(source.inputs["input"], X)
    with pytest.raises(DataError, match="the column x has cells of type list<"):
        source_of(held.assign(x=[["a"]] * len(X)), artifact.manifest, ReadOptions())
    with pytest.raises(DataError, match="the column a appears twice"):
        source_of(pd.concat([frame, frame], axis=1), artifact.manifest, ReadOptions())


def test_a_column_of_lists_is_the_input(artifact: odtc.Artifact, tmp_path: Path):
    """As `Dataset.to_parquet` of Hugging Face writes it; other columns are named as not read."""
    path = tmp_path / "d.parquet"
    columns = {"id": [*range(SAMPLES)], "pixels": X.reshape(-1, 2, 3).tolist(), "label": WORDS}
    datasets.Dataset.from_dict(columns).to_parquet(path)
    source = read_data(path, artifact.manifest)
    assert isinstance(source, Samples)
    np.testing.assert_array_equal(source.inputs["input"], X)
    assert source.notes[1].endswith("neither inputs nor labels: id; the step takes input, label")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), WIDTH)
    parquet.write_table(pa.table({"x": fixed, "y": Y}), path)
    again = read_data(path, artifact.manifest)
    assert isinstance(again, Samples)
    np.testing.assert_array_equal(again.inputs["input"], X)
    wrong = {
        "has lists of 4 numbers; the step takes 6": [[1.0, 2.0, 3.0, 4.0]] * 2,
        "has lists of 0 numbers; the step takes 6": pa.array([[], []], pa.list_(pa.float32())),
        "the column x has cells of type list<element: string>": [["a"] * 6] * 2,
        "have 1 to 2 values, and 0 are missing": [[1.0], [1.0, 2.0]],
        "have 6 to 6 values, and 1 are missing": [[1.0] * 6, None],
        "1 of 12 cells of the column x are empty or not a number, the first in row 2": [
            [1.0] * 6,
            [None] + [1.0] * 5,
        ],
    }
    for message, lists in wrong.items():
        parquet.write_table(pa.table({"x": lists, "y": [0, 1]}), path)
        with pytest.raises(DataError, match=message):
            read_data(path, artifact.manifest)


def test_lists_that_become_more_than_the_memory_are_not_read(
    artifact: odtc.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(6 << 17, np.float32)), 6)
    parquet.write_table(
        pa.table({"x": lists, "y": np.zeros(1 << 17, np.int8)}), tmp_path / "d.parquet"
    )
    monkeypatch.setattr(parquet_files, "available_bytes", lambda: 5 << 20)
    with pytest.raises(DataError, match="131072 rows of 2 columns take 6 MiB; 5 MiB of memory"):
        read_data(tmp_path / "d.parquet", artifact.manifest)


def test_images_in_a_column_are_told_where_they_go(artifact: odtc.Artifact, tmp_path: Path):
    cells = [{"bytes": b"", "path": "0.png"}] * 2
    parquet.write_table(pa.table({"image": cells, "label": [0, 1]}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match="the column image has cells of type struct<") as error:
        read_data(tmp_path / "d.parquet", artifact.manifest)
    assert "files in a folder for each class" in (error.value.hint or "")
