"""DataFrames go by the places of their columns, which are those of training."""

from pathlib import Path

import numpy as np
import pandas
import pytest

import odtc
from odtc.core.errors import DataError
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed()
FRAME = pandas.DataFrame(X, columns=[*"abcdef"])
TURNED = FRAME[[*"bacdef"]]
RENAMED = FRAME.rename(columns={"f": "g"})
SAID = "column 0 was a in training, and is b here"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("frames"), "cross-entropy")


@pytest.mark.parametrize("form", ["a table", "a frame", "a pair", "inputs by name"])
def test_columns_in_another_order_are_no_input(artifact: odtc.Artifact, form: str, tmp_path: Path):
    trainer = artifact.trainer(threads=1)
    table = FRAME.assign(label=Y)
    table.to_csv(tmp_path / "t.csv", index=False)
    data = {"a table": str(tmp_path / "t.csv"), "a frame": table, "a pair": (FRAME, Y)}
    trainer.fit(data.get(form, ({"input": FRAME}, Y)), lr=0.1)
    # What has no names goes by places.
    np.testing.assert_array_equal(trainer.predict(FRAME), trainer.predict(X))
    with pytest.raises(DataError, match=SAID) as error:
        trainer.predict(TURNED)
    assert "frame[['a', 'b', 'c', 'd', 'e', 'f']]" in (error.value.hint or "")
    with pytest.raises(DataError, match="column 5 was f in training, and is g here"):
        trainer.evaluate({"input": RENAMED})
    trainer.save_checkpoint(tmp_path / "c")
    again = artifact.trainer(threads=1)
    again.predict(TURNED)  # nothing says yet what the columns are
    again.load_checkpoint(tmp_path / "c")
    with pytest.raises(DataError, match=SAID):
        again.predict(TURNED)


def test_columns_of_a_validation_that_is_a_pair(artifact: odtc.Artifact):
    with pytest.raises(DataError, match="column 0 is a in data, and b here"):
        artifact.trainer(threads=1).fit((FRAME, Y), lr=0.1, validation=(TURNED, Y))


def test_arrays_after_frames_forget_the_names(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    trainer.fit((FRAME, Y), lr=0.1)
    trainer.fit((X, Y), lr=0.1)
    assert trainer.predict(TURNED[:BATCH]).shape == (BATCH, 3)
