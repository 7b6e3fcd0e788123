"""`Trainer.fit`: its steps, its history, what ends it and what it keeps; and that it goes on."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboardX.proto.event_pb2 import Event

import odtc
from odtc.core.errors import DataError, UsageError
from tests.runtime_rpc.loop.models import BATCH, SAMPLES, classed, saved, step_of
from tests.runtime_rpc.own_server import serving

VALIDATION = classed(21, seed=1)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("fit"), "cross-entropy", optimizer="adam")


@pytest.fixture
def trainer(artifact: odtc.Artifact) -> odtc.Trainer:
    return artifact.trainer(threads=1)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the last . of .* fill no batch")
        yield


def options(**more) -> dict:
    return {
        "lr": 0.01,
        "epochs": 6,
        "validation": VALIDATION,
        "metrics": ["accuracy"],
        "seed": 3,
    } | more


def test_epochs_follow_each_other_and_leave_no_sample_out(artifact: odtc.Artifact):
    """53 samples are 6 batches of 8 and 5 samples, which go with the next epoch."""
    x, y = classed()
    trainer = artifact.trainer(threads=1)
    history = trainer.fit((x, y), **options())
    assert history["step"] == [n * SAMPLES // BATCH for n in range(1, 7)] == [6, 13, 19, 26, 33, 39]
    assert history["epoch"] == [1, 2, 3, 4, 5, 6]
    stream = np.concatenate(
        [np.random.default_rng([3, epoch]).permutation(SAMPLES) for epoch in range(6)]
    )
    by_hand = artifact.trainer(threads=1)
    losses = []
    for step in range(39):
        chosen = stream[step * BATCH :][:BATCH]
        losses.append(by_hand.step(x[chosen], y[chosen], lr=0.01))
    assert history["loss"][1] == pytest.approx(np.mean(losses[6:13]), rel=1e-12)
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(value, by_hand.parameters()[name])
    logits = by_hand.evaluate(VALIDATION[0])
    assert history["val_accuracy"][-1] == (logits.argmax(1) == VALIDATION[1]).mean()
    wanted = torch.nn.functional.cross_entropy(
        torch.tensor(logits).double(), torch.tensor(VALIDATION[1]).long()
    )
    assert history["val_loss"][-1] == pytest.approx(float(wanted), rel=1e-9)


def test_what_no_step_takes_is_said(trainer: odtc.Trainer):
    with pytest.warns(UserWarning, match="the last 5 of 53 samples of the last epoch fill no"):
        trainer.fit(classed(), lr=0.1)


class Interrupt(odtc.Callback):
    """Ends the process, as far as a test can, after so many steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_train_batch_end(self, run, step, loss) -> None:
        if step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("cut", [1, 6, 7, 15, 26, 38])
def test_a_run_that_is_cut_has_the_same_history_and_the_same_bits(
    artifact: odtc.Artifact, tmp_path: Path, cut: int, every: int
):
    data, path = classed(), tmp_path / "c.ckpt"
    whole = artifact.trainer(threads=1)
    history = whole.fit(data, **options(validate_every=5, callbacks=[odtc.TimeLimit(1e6)]))
    wanted = saved(whole, tmp_path / "whole")

    def going(*callbacks) -> tuple[odtc.Trainer, odtc.History]:
        trainer = artifact.trainer(threads=1)
        kept = [odtc.Checkpoint(path, every=every), odtc.JsonLines(tmp_path / "log"), *callbacks]
        return trainer, trainer.fit(data, **options(validate_every=5, callbacks=kept, resume=path))

    with (
        pytest.warns(UserWarning, match="there is no checkpoint .* yet: the run begins anew"),
        pytest.raises(KeyboardInterrupt),
    ):
        going(Interrupt(cut))
    while not path.exists():  # it was cut before the first checkpoint
        with pytest.warns(UserWarning, match="begins anew"):
            going()
    trainer, found = going()
    assert found.rows == history.rows
    assert saved(trainer, tmp_path / "parts") == wanted
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    steps = [line["step"] for line in lines if "row" not in line]
    assert steps == [*range(1, 40)]
    rows = [{k: v for k, v in line.items() if k != "row"} for line in lines if "row" in line]
    assert rows == history.rows


def test_early_stopping_ends_where_nothing_improves_and_the_best_is_kept(
    artifact: odtc.Artifact, tmp_path: Path
):
    best, last = tmp_path / "best.ckpt", tmp_path / "last.ckpt"
    trainer = artifact.trainer(threads=1)
    kept = [odtc.BestCheckpoint(best, restore=True), odtc.Checkpoint(last)]
    history = trainer.fit(
        classed(), **options(lr=0.5, epochs=40, callbacks=[odtc.EarlyStopping(patience=3), *kept])
    )
    values = history["val_loss"]
    assert len(values) < 40
    assert values.index(min(values)) == len(values) - 4
    assert "val_loss is no better than" in history.stopped
    row = history.best()
    assert row is not None
    assert trainer.steps == row["step"]
    accuracy = (trainer.evaluate(VALIDATION[0]).argmax(1) == VALIDATION[1]).mean()
    assert row["val_accuracy"] == accuracy
    again = artifact.trainer(threads=1)
    stopping = odtc.EarlyStopping(patience=3)
    found = again.fit(classed(), **options(lr=0.5, epochs=40, callbacks=[stopping], resume=last))
    assert found.rows == history.rows
    assert found.stopped == history.stopped


def test_checkpoints_are_rotated(trainer: odtc.Trainer, tmp_path: Path):
    (tmp_path / "c-step99.ckpt").write_text("of somebody else")
    trainer.fit(
        classed(), **options(callbacks=[odtc.Checkpoint(tmp_path / "c.ckpt", every=10, keep=2)])
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("c-step30.ckpt", "c-step39.ckpt", "c-step99.ckpt", "c.ckpt"),
    ]
    assert (tmp_path / "c.ckpt").read_bytes() == (tmp_path / "c-step39.ckpt").read_bytes()


def test_a_limit_of_time_ends_a_run_that_goes_on_later(artifact: odtc.Artifact, tmp_path: Path):
    path = tmp_path / "c"
    trainer = artifact.trainer(threads=1)
    kept = [odtc.TimeLimit(1e-9), odtc.Checkpoint(path)]
    history = trainer.fit(classed(), **options(callbacks=kept))
    assert trainer.steps == 1
    assert history.stopped == "the time limit of 1e-09 seconds"
    assert history.rows == []
    found = artifact.trainer(threads=1).fit(classed(), **options(resume=path))
    assert found.rows == artifact.trainer(threads=1).fit(classed(), **options()).rows


def test_a_second_run_of_a_trainer_begins_where_the_first_ended(trainer: odtc.Trainer):
    assert trainer.fit(classed(), **options(epochs=1))["step"] == [6]
    rates = []
    history = trainer.fit(
        classed(),
        **options(lr=lambda updates: rates.append(updates) or 0.01, epochs=1),
    )
    assert history["step"] == [6]
    assert trainer.steps == 12
    assert {*rates} == {*range(6)}


def test_a_schedule_knows_how_long_the_run_is(trainer: odtc.Trainer):
    made = []

    def schedule(lr: float, updates: int) -> odtc.schedules.Cosine:
        made.append((lr, updates))
        return odtc.schedules.Cosine(lr, updates)

    history = trainer.fit(classed(), **options(schedule=schedule))
    assert made == [(0.01, 39)]
    assert history["lr"][-1] == odtc.schedules.Cosine(0.01, 39)(38)
    with pytest.raises(UsageError, match="lr is a schedule already"):
        trainer.fit(classed(), lr=lambda _: 0.1, schedule=schedule)


def test_callbacks_and_functions_get_the_rows(trainer: odtc.Trainer):
    seen = []

    class Own(odtc.Callback):
        def on_validation_end(self, run, row) -> None:
            row["mine"] = 2 * row["val_loss"]
            if row["epoch"] == 3:
                run.stop("three are enough")

    history = trainer.fit(classed(), **options(callbacks=[Own(), seen.append]))
    assert history["mine"] == [2 * value for value in history["val_loss"]]
    assert seen == history.rows
    assert len(seen) == 3
    assert history.stopped == "three are enough"
    assert str(history).splitlines()[0].split() == [
        *("step", "epoch", "lr", "loss", "val_loss", "val_accuracy", "mine"),
    ]


def test_a_log_for_tensorboard(trainer: odtc.Trainer, tmp_path: Path):
    history = trainer.fit(classed(), **options(callbacks=[odtc.TensorBoard(tmp_path)]))
    (file,) = tmp_path.iterdir()
    found = {}
    for event in events(file.read_bytes()):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    assert [step for step, _ in found["loss/step"]] == [*range(1, 40)]
    wanted = [*zip(history["step"], np.float32(history["val_loss"]), strict=True)]
    assert found["val_loss"] == wanted


def events(data: bytes) -> list[Event]:
    """The events of a file: each has its length before it, and hashes around."""
    found = []
    while data:
        length = int.from_bytes(data[:8], "little")
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def test_batches_of_any_size_are_cut_into_those_of_the_step(artifact: odtc.Artifact):
    """A loader of batches of 5 gives the samples in the order of the file, again and again."""
    x, y = classed()
    cut = [(x[n : n + 5], torch.tensor(y[n : n + 5]).long()) for n in range(0, SAMPLES, 5)]
    trainer = artifact.trainer(threads=1)
    history = trainer.fit(cut, lr=0.01, epochs=3, validation=cut, metrics="accuracy")
    assert history["step"] == [6, 13, 19]
    stream, by_hand = np.tile(np.arange(SAMPLES), 3), artifact.trainer(threads=1)
    for step in range(19):
        chosen = stream[step * BATCH :][:BATCH]
        by_hand.step(x[chosen], y[chosen], lr=0.01)
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(value, by_hand.parameters()[name])
    assert history["val_accuracy"][-1] == (by_hand.evaluate(x).argmax(1) == y).mean()


@pytest.mark.parametrize("cut", [3, 6, 13, 16])
def test_a_run_over_batches_that_is_cut_goes_on(artifact: odtc.Artifact, tmp_path: Path, cut: int):
    x, y = classed()
    batches = [(x[n : n + 5], y[n : n + 5]) for n in range(0, SAMPLES, 5)]
    whole = artifact.trainer(threads=1)
    history = whole.fit(batches, lr=0.01, epochs=3)
    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        artifact.trainer(threads=1).fit(
            batches, lr=0.01, epochs=3, callbacks=[odtc.Checkpoint(path, 1), Interrupt(cut)]
        )
    trainer = artifact.trainer(threads=1)
    found = trainer.fit(batches, lr=0.01, epochs=3, resume=path)
    assert found.rows == history.rows
    assert saved(trainer, tmp_path / "a") == saved(whole, tmp_path / "b")


def test_what_is_used_up_is_said(trainer: odtc.Trainer):
    x, y = classed()
    once = ((x[n : n + 8], y[n : n + 8]) for n in range(0, 48, 8))
    with pytest.raises(DataError, match="the data yields no batch") as error:
        trainer.fit(once, lr=0.1, epochs=2)
    assert "not a generator that is used up" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 2, "steps": 3}, "both epochs and steps are given"),
        ({"metrics": "accuracy"}, "metrics and validate_every need validation data"),
        ({"validation": VALIDATION, "metrics": "acc"}, "unknown metric 'acc'"),
        ({"validation": VALIDATION, "metrics": "mae"}, "the metric mae needs labels that are num"),
        ({"validation": VALIDATION, "metrics": ["f1", "f1"]}, "the metric f1 is given twice"),
        ({"callbacks": [odtc.EarlyStopping("val_loss")]}, "the run has no column 'val_loss'"),
        ({"callbacks": [5]}, "a callback is 5, which is neither"),
        ({"schedule": lambda lr, updates: 5}, "schedule makes 5, not a schedule"),
    ],
)
def test_what_does_not_go_together_is_said(trainer: odtc.Trainer, wrong: dict, message: str):
    with pytest.raises(UsageError, match=message):
        trainer.fit(classed(), lr=0.1, **wrong)
    assert trainer.steps == 0


def test_a_metric_of_the_users_has_to_say_what_is_better(trainer: odtc.Trainer):
    def mine(scores: np.ndarray, labels: np.ndarray) -> float:
        assert scores.shape == (21, 3)
        assert labels.shape == (21,)
        return float((scores.argmax(1) != labels).mean())

    asked = options(metrics=["accuracy", mine])
    with pytest.raises(UsageError, match="nothing says whether larger values of val_mine"):
        trainer.fit(classed(), **asked, callbacks=[odtc.EarlyStopping("val_mine")])
    stopping = odtc.EarlyStopping("val_mine", mode="min")
    history = trainer.fit(classed(), **asked, callbacks=[stopping])
    sums = np.array(history["val_mine"]) + history["val_accuracy"]
    np.testing.assert_allclose(sums, 1)


def test_a_run_on_a_device_has_the_history_of_one_here(tmp_path: Path):
    """Validations come at the same steps, several of which are a call."""
    artifact = step_of(tmp_path, "cross-entropy", optimizer="adam")
    histories, weights = [], []
    with serving(tmp_path / "sessions") as url:
        for device in (None, url):
            with artifact.trainer(device, threads=1) as trainer:
                kept = [odtc.Checkpoint(tmp_path / "c", every=5, keep=9)]
                run = options(validate_every=9, steps_per_call=4, callbacks=kept)
                histories.append(trainer.fit(classed(), **run).rows)
                weights.append(trainer.parameters())
    assert histories[0] == histories[1]
    assert len(histories[0]) == 10
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name])


def test_what_is_not_finite_is_null_in_json():
    history = odtc.History([{"step": 1, "loss": float("nan"), "val_loss": float("inf")}])
    assert history.as_data() == [{"step": 1, "loss": None, "val_loss": None}]
    assert history.best() == history.rows[0]
    assert history.best("loss") is None


def test_the_best_of_a_run_without_validation_is_that_of_its_loss(
    trainer: odtc.Trainer, tmp_path: Path
):
    """The last row is of less than an epoch."""
    kept = odtc.BestCheckpoint(tmp_path / "best", restore=True)
    history = trainer.fit(classed(), lr=0.01, steps=16, seed=3, callbacks=[kept])
    assert history["step"] == [6, 13, 16]
    best = history.best("loss")
    assert best is not None
    assert trainer.steps == best["step"] == 16


def test_a_best_checkpoint_that_was_not_kept_is_not_restored(
    artifact: odtc.Artifact, tmp_path: Path
):
    """It is asked for only after the best row, and what is there is of something else."""
    first, path = artifact.trainer(threads=1), tmp_path / "c"
    rates = {"lr": lambda updates: 0.01 if updates < 26 else 1.0}
    first.fit(classed(), **options(**rates | {"epochs": 4}, callbacks=[odtc.Checkpoint(path)]))
    trainer = artifact.trainer(threads=1)
    kept = odtc.BestCheckpoint(tmp_path / "best", restore=True)
    history = trainer.fit(classed(), **options(**rates, resume=path, callbacks=[kept]))
    whole, later = history.best(), odtc.History(history.rows[4:]).best()
    assert whole is not None
    assert later is not None
    assert whole["step"] <= 26 < later["step"] == trainer.steps
