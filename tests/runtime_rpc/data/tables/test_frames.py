"""DataFrames go by the names of their columns, as tables in files do."""

from pathlib import Path
from typing import Any

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
CELLS = f"2 of {len(X)} cells of the column c are empty or no number, the first in row 4"


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
        with pytest.warns(UserWarning, match="not read, as they are no input: id, sex; the step"):
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
        (pandas.concat([FRAME, FRAME], axis=1), "the column a is there twice"),
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
        with pytest.raises(DataError, match="the column a is there twice"):
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
    with pytest.warns(UserWarning, match="not read, as they are no input and no label: id"):
        artifact.trainer(threads=1).fit(table, lr=0.1, validation=table.assign(id=1))


def test_arrays_after_frames_forget_the_names(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    trainer.fit((FRAME, Y), lr=0.1)
    trainer.fit((X, Y), lr=0.1)
    assert trainer.predict(TURNED[:BATCH]).shape == (BATCH, 3)
