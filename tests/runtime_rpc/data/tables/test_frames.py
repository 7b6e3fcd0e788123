"""DataFrames go by the names of their columns, as tables in files do."""

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow
import pytest

import odtc
from odtc.core.errors import DataError
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed()
FRAME = pandas.DataFrame(X, columns=[*"abcdef"])
TURNED = FRAME[[*"bacdef"]]
RENAMED = FRAME.rename(columns={"f": "g"})
EMPTY = FRAME.copy()
EMPTY.loc[[3, 5], "c"] = np.nan
MISSING = "the training had the columns f, which are not there"
CELLS = f"2 of {len(X)} cells of the column c are empty or not a number, the first in row 4"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("frames"), "cross-entropy")


@pytest.mark.parametrize("form", ["a table", "a frame", "a pair", "inputs by name"])
def test_columns_are_taken_by_the_names_that_they_had(
    artifact: odtc.Artifact, form: str, tmp_path: Path
):
    trainer = artifact.trainer(threads=1)
    table = FRAME.assign(label=Y)
    table.to_csv(tmp_path / "t.csv", index=False)
    data = {"a table": str(tmp_path / "t.csv"), "a frame": table, "a pair": (FRAME, Y)}
    trainer.fit(data.get(form, ({"input": FRAME}, Y)), lr=0.1)
    # What has no names goes by places.
    expected = trainer.predict(X)
    np.testing.assert_array_equal(trainer.predict(FRAME), expected)
    trainer.save_checkpoint(tmp_path / "c")
    again = artifact.trainer(threads=1)
    again.predict(TURNED)  # nothing says yet what the columns are
    again.load_checkpoint(tmp_path / "c")
    for each in (trainer, again):
        arrow = pyarrow.Table.from_pandas(TURNED.assign(label=Y))
        frames = [TURNED[:9], TURNED[9:].assign(label=Y[9:])]
        tables = (arrow, arrow.to_batches()[0], arrow.to_reader(), frames, iter(frames))
        for given in (TURNED, {"input": TURNED}, (TURNED, Y), TURNED.assign(label=Y), *tables):
            np.testing.assert_array_equal(each.predict(given), expected)
        np.testing.assert_array_equal(each.evaluate({"input": TURNED}), expected)
        with pytest.warns(UserWarning, match="not read, as they are not inputs: id, sex; the step"):
            np.testing.assert_array_equal(each.predict(TURNED.assign(id=1, sex="m")), expected)
        for call in (each.predict, each.evaluate):
            with pytest.raises(DataError, match=MISSING) as error:
                call(RENAMED)
            assert "it has a, b, c, d, e, g" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (EMPTY, CELLS),
        (EMPTY.assign(c=EMPTY.c.astype("Float32")), CELLS),
        (FRAME.assign(id=1), "input has 7 columns, a, b, c, d, e, f, id; the step takes 6"),
        (FRAME[[*"abc"]], "input has 3 columns, a, b, c; the step takes 6"),
        (pandas.concat([FRAME, FRAME], axis=1), "the column a appears twice"),
        (
            FRAME.astype(object).assign(b=["x", *X[1:, 1]]),
            "the column b of the DataFrame holds no numbers, such as 'x' in row 1",
        ),
    ],
)
def test_what_is_no_table_of_the_step_is_told_by_its_columns(
    artifact: odtc.Artifact, frame: pandas.DataFrame, said: str
):
    trainer = artifact.trainer(threads=1)
    for call in (
        lambda: trainer.predict(frame),
        lambda: trainer.evaluate(frame),
        lambda: trainer.fit((frame, Y), lr=0.1),
    ):
        with pytest.raises(DataError, match=said) as error:
            call()
        assert error.value.where == "the DataFrame"


def test_a_column_that_is_there_twice_is_told_alike(artifact: odtc.Artifact):
    twice = pandas.concat([FRAME, FRAME], axis=1)
    trainer = artifact.trainer(threads=1)
    for call in (lambda: trainer.predict(twice), lambda: trainer.fit(twice.assign(y=Y), lr=0.1)):
        with pytest.raises(DataError, match="the column a appears twice"):
            call()


def test_objects_that_are_numbers_are_taken(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    np.testing.assert_array_equal(trainer.predict(FRAME.astype(object)), trainer.predict(X))
    mixed = FRAME.assign(c=FRAME.c.astype(object))
    assert np.isfinite(trainer.step(mixed[:BATCH], Y[:BATCH], lr=0.0))


@pytest.mark.parametrize("kind", [pyarrow.Table, pyarrow.RecordBatch])
def test_tables_of_others_are_called_by_what_they_are(artifact: odtc.Artifact, kind: Any):
    trainer, words, give = artifact.trainer(threads=1), FRAME.assign(b="x"), kind.from_pandas
    trainer.fit((give(FRAME), pyarrow.array(Y)), lr=0.1)
    for call in (
        lambda: trainer.predict(give(EMPTY)),
        lambda: trainer.predict(give(words)),
        lambda: trainer.fit(give(EMPTY.assign(y=Y)), lr=0.1),
        lambda: trainer.fit((give(words), Y), lr=0.1),
        lambda: trainer.fit(give(words.assign(y=Y)), lr=0.1),
    ):
        with pytest.raises(DataError) as error:
            call()
        assert error.value.where == f"the {kind.__name__} of Arrow"
        of_pandas = ("DataFrame", "dropna", "get_dummies", "frame.")
        assert not any(each in str(error.value) for each in of_pandas)


@pytest.mark.parametrize("validation", [(TURNED, Y), TURNED.assign(label=Y)], ids=["pair", "frame"])
def test_columns_of_a_validation_are_those_that_are_trained(
    artifact: odtc.Artifact, validation: Any
):
    losses = [
        artifact.trainer(threads=1).fit((FRAME, Y), lr=0.1, validation=given)["val_loss"]
        for given in (validation, (FRAME.copy(), Y))
    ]
    assert losses[0] == losses[1]


def test_a_column_that_a_validation_lacks(artifact: odtc.Artifact):
    with pytest.raises(DataError, match=MISSING):
        artifact.trainer(threads=1).fit((FRAME, Y), lr=0.1, validation=(RENAMED, Y))


def test_a_second_run_has_the_columns_of_the_first(artifact: odtc.Artifact):
    found = []
    for second in (FRAME, TURNED):
        trainer = artifact.trainer(threads=1)
        trainer.fit((FRAME, Y), lr=0.1)
        trainer.fit((second, Y), lr=0.1)
        found.append(trainer.predict(TURNED))
        trainer.fit((RENAMED, Y), lr=0.1)  # columns of other names are others
    np.testing.assert_array_equal(found[0], found[1])


def test_what_is_beside_the_columns_of_a_validation_is_said(artifact: odtc.Artifact):
    table = FRAME.assign(label=Y)
    with pytest.warns(UserWarning, match="not read, as they are neither inputs nor labels: id"):
        artifact.trainer(threads=1).fit(table, lr=0.1, validation=table.assign(id=1))


def test_arrays_after_frames_forget_the_names(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    trainer.fit((FRAME, Y), lr=0.1)
    trainer.fit((X, Y), lr=0.1)
    assert trainer.predict(TURNED[:BATCH]).shape == (BATCH, 3)


def batches(*frames: pandas.DataFrame) -> list[tuple[Any, np.ndarray]]:
    """Of each frame the next samples."""
    parts = enumerate(frames)
    return [(each[n * 8 : n * 8 + 8], Y[n * 8 : n * 8 + 8]) for n, each in parts]


def same_as_arrays(artifact: odtc.Artifact, trained: odtc.Trainer, count: int) -> None:
    """Checks that weights are those of the same samples without names."""
    other = artifact.trainer(threads=1)
    other.fit([(X[n * 8 : n * 8 + 8], Y[n * 8 : n * 8 + 8]) for n in range(count)], lr=0.1)
    for name, value in other.parameters().items():
        np.testing.assert_array_equal(trained.parameters()[name], value)


@pytest.mark.parametrize("form", ["a list", "by name", "of Arrow", "a loop", "train"])
def test_batches_have_the_columns_of_the_first(artifact: odtc.Artifact, form: str):
    trainer, given = artifact.trainer(threads=1), batches(FRAME, TURNED, FRAME, TURNED)
    if form == "by name":
        given = [({"input": x}, y) for x, y in given]
    elif form == "of Arrow":
        given = [(pyarrow.Table.from_pandas(x), y) for x, y in given]
    if form == "a loop":
        for x, y in given:
            trainer.step(x, y, lr=0.1)
    elif form == "train":
        assert len([*trainer.train(given, lr=0.1)]) == 4
    else:
        trainer.fit(given, lr=0.1)
    same_as_arrays(artifact, trainer, 4)
    expected = trainer.predict(X)
    for call in (trainer.predict, trainer.evaluate):
        np.testing.assert_array_equal(call(TURNED), expected)
    with pytest.raises(DataError, match=MISSING):
        trainer.fit(batches(FRAME, RENAMED), lr=0.1)


def test_batches_of_a_validation_have_the_columns_that_are_trained(artifact: odtc.Artifact):
    """Whichever of both has the names first."""
    found = []
    for data in ((FRAME, Y), batches(FRAME, TURNED, FRAME, TURNED, FRAME, TURNED)):
        for other in ((FRAME, Y), [(TURNED[:30], Y[:30]), (FRAME[30:], Y[30:])]):
            trainer = artifact.trainer(threads=1)
            found.append(trainer.fit(data, lr=0.0, validation=other)["val_loss"])
            scores = trainer.predict(TURNED)
            np.testing.assert_array_equal(scores, trainer.predict(FRAME))
    np.testing.assert_allclose(found, found[:1] * 4, rtol=1e-5)


class Loader:
    """Gives batches, and has none to be looked at before."""

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        return iter(batches(FRAME, TURNED))


def test_a_validation_that_is_read_before_the_first_batch(artifact: odtc.Artifact):
    found = artifact.trainer(threads=1).fit(Loader(), lr=0.0, validation=(FRAME, Y))
    with pytest.raises(DataError, match="the columns a, b, c, d, e, f, and the validation b, a, c"):
        artifact.trainer(threads=1).fit(Loader(), lr=0.0, validation=(TURNED, Y))
    trainer = artifact.trainer(threads=1)
    trainer.fit((FRAME, Y), lr=0.0)
    again = trainer.fit(Loader(), lr=0.0, validation=(FRAME, Y))
    assert again["val_loss"] == found["val_loss"]


def test_a_run_over_batches_goes_on_with_its_columns(artifact: odtc.Artifact, tmp_path: Path):
    trainer, path = artifact.trainer(threads=1), tmp_path / "c.ckpt"
    trainer.fit(batches(FRAME, FRAME), lr=0.1, callbacks=[odtc.Checkpoint(path, every=1)])
    again = artifact.trainer(threads=1)
    again.fit(batches(TURNED, TURNED, TURNED), lr=0.1, steps=3, resume=str(path))
    same_as_arrays(artifact, again, 3)
    # A second run over the weights takes the same columns in the order of the first.
    trainer.fit(batches(TURNED), lr=0.1)
    np.testing.assert_array_equal(trainer.predict(TURNED), trainer.predict(X))


def test_rows_that_have_another_order_are_told(artifact: odtc.Artifact):
    """Pandas would put them together by the index."""
    labels = pandas.Series(Y)
    trainer = artifact.trainer(threads=1)
    with pytest.warns(UserWarning, match="the same index in another order; they go by their place"):
        trainer.fit((FRAME, labels[::-1]), lr=0.1)
    for fitting in (labels, labels.set_axis(range(100, 100 + len(Y))), Y):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.fit((FRAME, fitting), lr=0.1)
        assert not any("index" in str(each.message) for each in caught)


@pytest.mark.parametrize("form", ["step", "fit", "train", "validation", "by name"])
def test_rows_of_a_batch_that_have_another_order_are_told(artifact: odtc.Artifact, form: str):
    """Of a batch as of all samples."""
    trainer = artifact.trainer(threads=1)
    batch: Any = (FRAME[:BATCH], pandas.Series(Y)[:BATCH][::-1])
    if form == "by name":
        batch = ({"input": batch[0]}, {"label": batch[1]})
    calls: dict[str, Any] = {
        "validation": lambda: trainer.fit([(X, Y)], lr=0.1, validation=[batch]),
        "fit": lambda: trainer.fit([batch] * 2, lr=0.1),
        "train": lambda: [*trainer.train([batch] * 2, lr=0.1)],
    }
    call = calls.get(form, lambda: trainer.step(*batch, lr=0.1))
    with pytest.warns(UserWarning, match="the same index in another order; they go by") as told:
        call()
    assert sum("same index" in str(each.message) for each in told) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_arrays_among_frames_have_columns_that_nothing_tells(artifact: odtc.Artifact, turned: bool):
    trainer = artifact.trainer(threads=1)
    given: Any = [(FRAME[:8], Y[:8]), (X[8:16], Y[8:16])]
    given = given[::-1] if turned else given
    said = "some batches of input are DataFrames, with the columns a, b, c, d, e, f, and others"
    for data in (given, iter(given)):
        with pytest.raises(DataError, match=said):
            trainer.fit(data, lr=0.1)
    with pytest.raises(DataError, match=said):
        trainer.predict(given)
    with pytest.raises(DataError, match=said):
        trainer.fit((X, Y), lr=0.1, validation=given)
    trainer.step(*given[0], lr=0.1)
    with pytest.warns(UserWarning, match=f"{said}.*by their places"):
        trainer.step(*given[1], lr=0.1)


@pytest.mark.parametrize(
    "labels",
    [
        pandas.Series([None, *Y[1:]], dtype="Int64"),
        pandas.Series([None, *Y[1:]]),
        [math.nan, *(["cat"] * (len(Y) - 1))],
        pyarrow.array([None, *Y[1:].tolist()]),
        np.array([np.nan, *(["cat"] * (len(Y) - 1))], object),
    ],
    ids=["nullable", "float", "words", "Arrow", "objects"],
)
def test_labels_that_are_missing_are_told(artifact: odtc.Artifact, labels: Any):
    message = f"1 of {len(Y)} labels of label are missing, the first in sample 0"
    with pytest.raises(DataError, match=message):
        artifact.trainer(threads=1).fit((FRAME, labels), lr=0.1)
    with pytest.raises(DataError, match="1 of 8 labels of label are missing"):
        artifact.trainer(threads=1).fit([(X[:8], labels[:8])] * 2, lr=0.1)


def test_sparse_columns_are_taken(artifact: odtc.Artifact):
    sparse = FRAME.astype(pandas.SparseDtype("float32", 0))
    found = artifact.trainer(threads=1).fit(sparse.assign(label=Y), lr=0.1)
    assert found.rows == artifact.trainer(threads=1).fit((FRAME, Y), lr=0.1).rows


def test_a_dataset_with_a_column_for_each_number_is_a_frame(artifact: odtc.Artifact):
    classes = datasets.ClassLabel(names=["cat", "dog", "eel"])
    table = datasets.Dataset.from_pandas(FRAME.assign(label=Y)).cast_column("label", classes)
    turned = table.select_columns([*TURNED.columns, "label"])
    trainer = artifact.trainer(threads=1)
    found = trainer.fit(table, lr=0.1, validation=turned)
    other = artifact.trainer(threads=1)
    assert found.rows == other.fit((FRAME, Y), lr=0.1, validation=(FRAME, Y)).rows
    assert '"cat", "dog", "eel"' in trainer.progress
    expected = other.predict(X)
    for given in (table, turned, turned.remove_columns("label"), turned.add_column("id", [*Y])):
        np.testing.assert_array_equal(trainer.predict(given), expected)
    with pytest.raises(DataError, match="input has 7 columns, a, b, c, d, e, f, id; the step take"):
        trainer.fit(table.add_column("id", [*Y]), lr=0.1)
    # What is no number is no column of a table, but a sample that has no input of that name.
    words = table.add_column("word", ["w"] * len(Y))
    with pytest.raises(DataError, match="a sample has no input"):
        trainer.fit(words, lr=0.1)
