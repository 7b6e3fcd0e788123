"""What a run leaves that an interrupt or an error ends: its history so far, as Keras keeps it."""

import signal
from pathlib import Path

import pytest

import odtc
from odtc.core.errors import NumericError
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(16)  # two steps an epoch
OTHER = classed(16, seed=1)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("interrupted"), "cross-entropy")


class CtrlC(odtc.Callback):
    """What a person does in the third epoch."""

    def on_train_batch_end(self, run, step, loss) -> None:
        if step == 5:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_leaves_the_history(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    assert len(trainer.history) == 0
    with pytest.raises(KeyboardInterrupt):
        trainer.fit((X, Y), lr=0.1, epochs=9, validation=OTHER, callbacks=[CtrlC()])
    history = trainer.history
    assert history["epoch"] == [1, 2]
    assert len(history["val_loss"]) == 2
    assert history.stopped == "an interrupt"
    again = trainer.fit((X, Y), lr=0.1, validation=OTHER)
    assert trainer.history is again
    assert not again.stopped


def test_an_error_leaves_the_history(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    with pytest.raises(NumericError):
        trainer.fit((X, Y), lr=lambda update: 0.1 if update < 4 else 1e38, epochs=9)
    assert trainer.history["epoch"] == [1, 2]
    assert trainer.history.stopped == "an error, NumericError"


def test_what_had_stopped_a_run_before_stays(artifact: odtc.Artifact):
    def broken(run) -> None:
        raise ValueError("of a user")

    ending = odtc.TimeLimit(1e-9)
    after = odtc.Callback()
    after.on_train_end = broken  # type: ignore[method-assign]
    trainer = artifact.trainer(threads=1)
    with pytest.raises(ValueError, match="of a user"):
        trainer.fit((X, Y), lr=0.1, callbacks=[ending, after])
    assert trainer.history.stopped == "the time limit of 1e-09 seconds"


def test_the_history_of_a_run_that_is_taken_up_has_its_rows_of_before(
    artifact: odtc.Artifact, tmp_path: Path
):
    path = tmp_path / "run.ckpt"
    given = {"lr": 0.1, "epochs": 4, "callbacks": [odtc.Checkpoint(path, every=1), CtrlC()]}
    with pytest.raises(KeyboardInterrupt):
        artifact.trainer(threads=1).fit((X, Y), **given)
    trainer = artifact.trainer(threads=1)
    trainer.fit((X, Y), lr=0.1, epochs=4, resume=str(path))
    assert trainer.history["epoch"] == [1, 2, 3, 4]
