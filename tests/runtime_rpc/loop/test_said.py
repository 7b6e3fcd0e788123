"""Where a run does other than its user may think, it says so."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.core.errors import UsageError
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(16)
NAN = (np.full_like(X, np.nan), Y)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("said"), "cross-entropy")


def test_validations_that_are_no_number_are_no_improvement(artifact: odtc.Artifact, tmp_path: Path):
    best = odtc.BestCheckpoint(tmp_path / "best.ckpt", restore=True)
    stopping = odtc.EarlyStopping(patience=3)
    trainer = artifact.trainer(threads=1)
    with pytest.warns(UserWarning, match=r"val_loss was no number at any .*is not written; the we"):
        history = trainer.fit((X, Y), lr=0.1, epochs=9, validation=NAN, callbacks=[best, stopping])
    assert len(history) == 3
    assert history.stopped == "val_loss is no number for 3 validations"
    assert not (tmp_path / "best.ckpt").exists()


def test_a_number_after_those_that_are_none_is_an_improvement(artifact: odtc.Artifact):
    values = iter([np.nan, np.nan, 5.0, np.nan, 5.0, 6.0, 7.0])
    stopping = odtc.EarlyStopping("val_mine", patience=3, mode="min")

    def mine(scores: np.ndarray, labels: np.ndarray) -> float:
        return next(values)

    history = artifact.trainer(threads=1).fit(
        (X, Y), lr=0.1, epochs=9, validation=(X, Y), metrics=mine, callbacks=[stopping]
    )
    assert len(history) == 6
    assert history.stopped == "val_mine is no better than 5 at step 6 for 3 validations"


class Keras(odtc.Callback):
    def on_epoch_begin(self, epoch: int) -> None:
        raise AssertionError

    def on_batch_end(self, batch: int) -> None:
        raise AssertionError


def test_hooks_that_nobody_calls_are_said(artifact: odtc.Artifact):
    with pytest.warns(UserWarning, match="is never called") as said:
        artifact.trainer(threads=1).fit((X, Y), lr=0.1, callbacks=[Keras()])
    texts = [str(each.message).partition(": ")[0] for each in said]
    assert texts == ["Keras.on_batch_end is never called", "Keras.on_epoch_begin is never called"]
    assert "the hooks are on_epoch_end, on_exception" in str(said[0].message)


def test_options_of_text_for_other_data_are_said(artifact: odtc.Artifact):
    with pytest.warns(UserWarning, match="data: it has no text: tokenizer, end token and packing"):
        artifact.trainer(threads=1).fit((X, Y), lr=0.1, pack=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artifact.trainer(threads=1).fit((X, Y), lr=0.1)


def test_a_row_is_no_column(artifact: odtc.Artifact):
    history = artifact.trainer(threads=1).fit((X, Y), lr=0.1)
    with pytest.raises(UsageError, match="the history has no column -1") as error:
        history[-1]  # pyright: ignore[reportArgumentType]
    assert error.value.hint == "it has step, epoch, lr, loss; history.rows has the rows"
