"""Where a run does other than its user may think, it says so."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import NumericError, UsageError
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
    with pytest.warns(UserWarning, match=r"val_loss was NaN at every .*is not written; the we"):
        history = trainer.fit((X, Y), lr=0.1, epochs=9, validation=NAN, callbacks=[best, stopping])
    assert len(history) == 3
    assert history.stopped == "val_loss is NaN for 3 validations"
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


def test_weights_that_a_failed_run_left_are_said(artifact: odtc.Artifact, tmp_path: Path):
    """In a notebook the data is mended, and fit is called again."""
    trainer = artifact.trainer(threads=1)
    trainer.save_checkpoint(tmp_path / "before")
    with pytest.raises(NumericError, match="elements of 'input' are nan at step"):
        trainer.fit(NAN, lr=0.1)
    with pytest.raises(NumericError, match=r"elements of '.*' are not finite") as error:
        trainer.fit((X, Y), lr=0.1)
    assert "begin with a new trainer" in (error.value.hint or "")
    trainer.load_checkpoint(tmp_path / "before")
    assert len(trainer.fit((X, Y), lr=0.1)) == 1
    assert not trainer.history.stopped


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


def fitted(
    artifact: odtc.Artifact, *callbacks: object, data: object = (X, Y), **asked: object
) -> odtc.History:
    trainer = artifact.trainer(threads=1)
    return trainer.fit(data, callbacks=callbacks, **{"lr": 0.1, **asked})  # type: ignore[arg-type]


def test_two_callbacks_of_one_file_are_refused(artifact: odtc.Artifact, tmp_path: Path):
    # The last weights took the place of the best, and were restored as these.
    path = tmp_path / "a.ckpt"
    best = odtc.BestCheckpoint(path, restore=True)
    with pytest.raises(UsageError, match="would replace another of the results"):
        fitted(artifact, odtc.Checkpoint(path), best, validation=(X, Y))
    with pytest.raises(UsageError, match="would replace another of the results"):
        fitted(artifact, best, odtc.JsonLines(path), validation=(X, Y))


class Lightning(odtc.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, number) -> None:  # type: ignore[override]
        raise AssertionError


class OfKeras(odtc.Callback):
    def on_epoch_end(self, epoch, logs=None) -> None:  # type: ignore[override]
        self.seen = epoch


class Stops(odtc.Callback):
    def on_epoch_end(self, run, row) -> None:
        run.should_stop = True


def test_hooks_that_take_something_else_are_refused_before_the_first_step(artifact: odtc.Artifact):
    with pytest.raises(UsageError, match=r"Lightning.on_train_batch_end does not take") as error:
        fitted(artifact, Lightning())
    assert error.value.hint == "it is called with (run, step, loss)"
    with pytest.raises(UsageError, match="lambda> does not take what it is called with"):
        fitted(artifact, lambda epoch, logs: None)
    with pytest.warns(UserWarning, match=r"with \(run, row\): what it calls epoch is the run"):
        fitted(artifact, OfKeras())


def test_what_a_hook_sets_and_nobody_reads_is_an_error(artifact: odtc.Artifact):
    with pytest.raises(AttributeError, match=r"run.stop\('why'\) ends it"):
        fitted(artifact, Stops(), epochs=2)


def test_callbacks_of_other_libraries_are_told_which_is_odtcs(artifact: odtc.Artifact):
    for name, said in {
        "EarlyStopping": "give odtc.EarlyStopping(...)",
        "ModelCheckpoint": "odtc.Checkpoint(path, every=100) or odtc.BestCheckpoint(path)",
    }.items():
        with pytest.raises(UsageError, match=r"neither an odtc.Callback nor a function") as error:
            fitted(artifact, type(name, (), {})())
        assert error.value.hint == said


def test_a_data_module_is_told_to_give_its_loaders(artifact: odtc.Artifact):
    module = type("Digits", (), {"train_dataloader": None})()
    with pytest.raises(UsageError, match="no samples with labels") as error:
        fitted(artifact, data=module)
    assert (error.value.hint or "").startswith("give its loaders: fit(it.train_dataloader()")


def test_what_decides_without_a_validation_is_said(artifact: odtc.Artifact):
    with pytest.warns(UserWarning, match="there is no validation: the training loss"):
        fitted(artifact, odtc.EarlyStopping())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(artifact, odtc.EarlyStopping("loss", patience=1), epochs=2)


@pytest.mark.parametrize(
    ("column", "mode", "right"),
    [("val_loss", "max", "min"), ("val_accuracy", "min", "max"), (None, "max", "min")],
)
def test_a_mode_that_is_against_the_column_is_said(
    artifact: odtc.Artifact, tmp_path: Path, column: str | None, mode: str, right: str
):
    asked = {"validation": classed(16, seed=1), "metrics": ["accuracy"]}
    for kind in (
        odtc.EarlyStopping(column, mode=mode),
        odtc.BestCheckpoint(tmp_path / "b.ckpt", column, mode),
    ):
        said = f"^mode is '{mode}', so worse values of {column or 'val_loss'}"
        with pytest.warns(UserWarning, match=f"{said} .* mode '{right}'"):
            fitted(artifact, kind, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopping = odtc.EarlyStopping(column, patience=1, mode=right)
        fitted(artifact, stopping, **asked, epochs=2)


def test_bounds_of_callbacks():
    with pytest.raises(UsageError, match="min_delta is -1, below 0"):
        odtc.EarlyStopping(min_delta=-1)
    with pytest.raises(UsageError, match="seconds is 0, not above 0"):
        odtc.TimeLimit(0)


def test_a_schedule_that_takes_no_length_of_a_run_is_refused(artifact: odtc.Artifact):
    # The run's number of updates became `every`: the rate never fell.
    with pytest.raises(UsageError, match="the class Step, which takes no length of a run"):
        fitted(artifact, schedule=odtc.schedules.Step)


def test_a_schedule_of_text_is_told_what_reads_it(artifact: odtc.Artifact):
    with pytest.raises(UsageError, match="schedule is 'cosine', not a function") as error:
        fitted(artifact, schedule="cosine")
    hint = error.value.hint or ""
    assert "such as schedule=odtc.schedules.Cosine" in hint
    made = eval(hint.partition("read by ")[2], {"odtc": odtc})
    expected = fitted(artifact, schedule=odtc.schedules.Cosine, steps=4)["lr"]
    assert fitted(artifact, schedule=made, steps=4)["lr"] == expected


def test_a_metric_of_the_users_that_fails_says_what_it_gets(artifact: odtc.Artifact):
    def wrong(scores: np.ndarray, labels: np.ndarray) -> float:
        return float((scores == labels[:, :, None]).mean())

    with pytest.raises(UsageError, match="the metric wrong fails: IndexError") as error:
        fitted(artifact, validation=(X, Y), metrics=wrong)
    assert "all outputs, a numpy.ndarray of shape [16, " in (error.value.hint or "")

    def loss(scores: np.ndarray, labels: np.ndarray) -> float:
        return 0.0

    with pytest.raises(UsageError, match="a metric is called loss"):
        fitted(artifact, validation=(X, Y), metrics=loss)


class Pairs(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return X[number], Y[number]


def test_a_schedule_takes_its_length_of_a_list_or_a_loader(artifact: odtc.Artifact):
    cosine = odtc.schedules.Cosine(0.1, steps=8)
    halves = [(X[:5], Y[:5]), (X[5:], Y[5:])]
    loader = torch.utils.data.DataLoader(Pairs(), 5, drop_last=False)
    for data in (halves, loader):
        history = fitted(artifact, data=data, epochs=4, schedule=odtc.schedules.Cosine)
        assert history["lr"] == [cosine(n) for n in (1, 3, 5, 7)]
    # Fifteen samples an epoch: the fourth ends with the seventh step.
    dropping = torch.utils.data.DataLoader(Pairs(), 5, drop_last=True)
    history = fitted(artifact, data=dropping, epochs=4, schedule=odtc.schedules.Cosine)
    assert history["lr"][-1] == odtc.schedules.Cosine(0.1, steps=7)(6)


def test_a_schedule_that_was_made_for_another_length_is_said(artifact: odtc.Artifact):
    def twice(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.utils.data.default_collate(samples * 2)
        return x, y

    loader = torch.utils.data.DataLoader(Pairs(), 8, collate_fn=twice)
    with pytest.warns(UserWarning, match="made for 2 steps, as many .* in 1 epochs; there were 4"):
        fitted(artifact, data=loader, schedule=odtc.schedules.Cosine)
    unknown = iter([(X[:8], Y[:8])])
    with pytest.raises(UsageError, match="nothing says how many steps"):
        fitted(artifact, data=unknown, schedule=odtc.schedules.Cosine)


def test_steps_that_came_to_no_update_are_said(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    update = odtc.Update("sgd", accumulate=4)
    trainer = step_of(tmp_path, "cross-entropy", optimizer=update).trainer(threads=1)
    before = trainer.parameters()
    with pytest.warns(UserWarning, match="no update is made: the run has fewer steps") as said:
        trainer.fit((X, Y), lr=0.1, steps=3)
    # Once: not at the end again.
    assert len([each for each in said if "update" in str(each.message)]) == 1
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(value, before[name])
    recwarn.clear()
    trainer.fit((X, Y), lr=0.1, steps=1)
    assert not [each for each in recwarn if "changed no weight" in str(each.message)]
    # A run that ends before its last step leaves others.
    with pytest.warns(UserWarning, match="the last step has changed no weight yet: 4 make"):
        trainer.fit((X, Y), lr=0.1, steps=8, callbacks=[odtc.TimeLimit(1e-9)])
