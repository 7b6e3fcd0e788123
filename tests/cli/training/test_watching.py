"""`odtc train --validation`: what it measures, keeps and writes, and what ends a run early."""

import json
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import BATCH, SAMPLES, Digits, trained

RUN = ("--lr", "0.05", "--threads", "1")


def test_a_validation_each_epoch_is_in_the_history(digits: Digits, here: Path, run_json):
    watch = ("--validation", digits.test, "--metrics", "accuracy", "top-k{k=3}")
    summary = run_json(*trained(digits, *RUN, *watch, "--epochs", "4", "--log", "run.jsonl"))
    rows = summary["history"]
    assert [row["step"] for row in rows] == [n * SAMPLES // BATCH for n in range(1, 5)]
    assert [*rows[0]] == ["step", "epoch", "lr", "loss", "val_loss", "val_accuracy", "val_top_3"]
    assert summary["val_loss"] == rows[-1]["val_loss"]
    assert summary["stopped"] is None
    trainer = odtc.load(digits.artifact).trainer(threads=1)
    history = trainer.fit(
        digits.train, lr=0.05, epochs=4, validation=digits.test, metrics=["accuracy", "top-k{k=3}"]
    )
    assert history.as_data() == rows
    lines = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert [
        {k: v for k, v in line.items() if k != "row"} for line in lines if "row" in line
    ] == rows
    assert summary["loss"] == [line["loss"] for line in lines if "row" not in line][-1]


def test_several_validations_an_epoch_are_told(digits: Digits, here: Path, capsys):
    watch = ("--validation", digits.test, "--validate-every", "5", "--steps", "12")
    assert main(trained(digits, *RUN, *watch)) == 0
    said = capsys.readouterr()
    assert [line.partition(": ")[0] for line in said.err.splitlines() if "val_loss" in line] == [
        *("epoch 1, step 5", "epoch 1, step 10", "epoch 1, step 12"),
    ]
    assert "validation loss " in said.out


def test_patience_ends_a_run_and_the_best_is_exported(digits: Digits, here: Path, run_json, capsys):
    watch = ("--validation", digits.test, "--metrics", "accuracy", "--patience", "2")
    keep = ("--best", "best.ckpt", "--restore-best", "--monitor", "val_accuracy")
    options = ("--lr", "0.2", "--threads", "1", "--epochs", "60", "--checkpoint", "c")
    argv = trained(digits, *options, *watch, *keep, "--eval-data", digits.test)
    summary = run_json(*argv, "--export", "out.onnx")
    values = [row["val_accuracy"] for row in summary["history"]]
    assert len(values) < 60
    assert values.index(max(values)) == len(values) - 3
    assert summary["best"] == summary["history"][-3]
    assert summary["accuracy"] == max(values)
    # What the summary says is of the weights that it ends with.
    assert summary["val_accuracy"] == max(values)
    assert summary["val_loss"] == summary["best"]["val_loss"]
    assert "val_accuracy is no better than" in summary["stopped"]
    assert summary["best_checkpoint"] == "best.ckpt"
    trainer = odtc.load(digits.artifact).trainer(threads=1)
    trainer.load_checkpoint("best.ckpt")
    assert trainer.steps == summary["best"]["step"]
    assert main([*argv, "--resume"]) == 0
    said = capsys.readouterr().err
    assert f"note: ended after step {summary['steps']}: val_accuracy is no better" in said
    assert "the weights are those of the best validation: step " in said


def test_it_is_said_that_the_last_weights_are_not_the_best(digits: Digits, here: Path, capsys):
    watch = ("--validation", digits.test, "--best", "best.ckpt", "--epochs", "30")
    assert main(trained(digits, "--lr", "0.2", *watch)) == 0
    assert "; the best are in best.ckpt: step " in capsys.readouterr().err


def test_a_best_of_no_validation_is_said(digits: Digits, here: Path, capsys):
    assert main(trained(digits, *RUN, "--steps", "2", "--best", "best.ckpt")) == 0
    assert "note: there is no validation: the training loss decides" in capsys.readouterr().err


def test_without_a_validation_epochs_are_counted(digits: Digits, here: Path, capsys):
    keep = ("--patience", "2", "--best", "best.ckpt", "--restore-best")
    assert main(trained(digits, "--lr", "0", *keep, "--epochs", "2")) == 0
    said = capsys.readouterr().err
    assert "--patience changes nothing: the history of the run has no more rows, and the " in said
    assert "the weights are those of the best epoch: step " in said
    again = ("--min-delta", "9", "--epochs", "9")
    assert main(trained(digits, "--lr", "0", *keep, *again)) == 0
    said = capsys.readouterr().err
    assert " for 2 epochs" in said
    assert "validations" not in said


def test_a_best_that_never_was_is_said(digits: Digits, here: Path, capsys):
    with np.load(digits.test) as test:
        np.savez("nan.npz", x=np.full_like(test["x"], np.nan), label=test["label"])
    watch = ("--validation", "nan.npz", "--patience", "2", "--best", "b.ckpt", "--restore-best")
    assert main(trained(digits, *RUN, *watch, "--epochs", "9")) == 0
    said = capsys.readouterr().err
    assert "val_loss is NaN for 2 validations" in said
    assert "note: val_loss was NaN at every validation: b.ckpt is not written; the w" in said
    assert not Path("b.ckpt").exists()


def test_a_run_that_is_cut_by_its_time_goes_on_to_the_same_history(
    digits: Digits, here: Path, run_json
):
    run = trained(digits, *RUN, "--epochs", "3", "--validation", digits.test)
    whole = run_json(*run, "--checkpoint", "whole")
    cut = run_json(*run, "--checkpoint", "c", "--max-time", "1e-9")
    assert cut["steps"] == 1
    assert "time limit" in cut["stopped"]
    found = run_json(*run, "--checkpoint", "c", "--resume")
    assert found["history"] == whole["history"]
    assert Path("c").read_bytes() == Path("whole").read_bytes()


def test_a_run_of_a_restart_loop_begins_and_goes_on(digits: Digits, here: Path, capsys):
    """The same command each time: the first one has no checkpoint yet."""
    argv = trained(digits, *RUN, "--steps", "5", "--checkpoint", "c", "--resume")
    assert main(argv) == 0
    assert "note: there is no checkpoint c yet: the run begins anew" in capsys.readouterr().err
    assert main(argv) == 0
    assert "resumed from c at step 5 of 5" in capsys.readouterr().err


def test_a_longer_run_is_not_replaced_by_a_shorter_one(digits: Digits, here: Path, capsys):
    argv = trained(digits, *RUN, "--checkpoint", "c", "--steps")
    assert main([*argv, "6"]) == 0
    before = Path("c").read_bytes()
    capsys.readouterr()
    assert main([*argv, "5"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "the checkpoint is of step 6, and this run of 5 steps would replace it" in said
    assert Path("c").read_bytes() == before
    assert main([*argv, "6"]) == 0
    assert (
        "note: c of step 6 will be replaced; --resume would continue it" in capsys.readouterr().err
    )


def test_checkpoints_are_kept_beside_the_last(digits: Digits, here: Path):
    keep = ("--checkpoint", "c.ckpt", "--checkpoint-every", "4", "--keep", "2")
    assert main(trained(digits, *RUN, "--steps", "13", *keep)) == 0
    assert sorted(path.name for path in here.iterdir()) == [
        *("c-step12.ckpt", "c-step13.ckpt", "c.ckpt"),
    ]


def test_data_at_the_end_has_a_loss_of_every_kind(digits: Digits, here: Path, run_json):
    odtc.compile(digits.model, batch=BATCH, loss="mse").save("mse.odtc")
    with np.load(digits.train) as file:
        x, y = file["image"], np.eye(10, dtype=np.float32)[file["y"]]
    np.savez("d.npz", x=x, y=y)
    argv = ["train", "mse.odtc", "--data", "d.npz", "--eval-data", "d.npz", *RUN, "--steps", "3"]
    summary = run_json(*argv, "--checkpoint", "c")
    assert "accuracy" not in summary
    trainer = odtc.load("mse.odtc").trainer(threads=1)
    trainer.load_checkpoint("c")
    assert summary["eval_loss"] == pytest.approx(np.mean((trainer.evaluate(x) - y) ** 2), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        (("--metrics", "accuracy"), "--metrics needs --validation FILE"),
        (("--restore-best",), "--restore-best needs --best FILE"),
        (("--monitor", "loss"), "--monitor needs --patience N or --best FILE"),
        (("--keep", "2"), "--keep needs a checkpoint"),
        (("--max-time", "0"), "--max-time is 0, not above 0"),
        (("--max-time", "nan"), "--max-time is nan, not above 0"),
        (("--patience", "2", "--min-delta", "-1"), "--min-delta is -1, not 0 or above"),
    ],
)
def test_options_that_are_about_nothing_are_refused(
    digits: Digits, here: Path, capsys, options: tuple[str, ...], needs: str
):
    assert main(trained(digits, *RUN, *options)) == ExitCode.USAGE
    assert needs in capsys.readouterr().err


def test_a_mode_against_the_column_is_a_note(digits: Digits, here: Path, capsys):
    watch = ("--validation", digits.test, "--patience", "2", "--mode", "max", "--epochs", "1")
    assert main(trained(digits, *RUN, *watch)) == 0
    said = capsys.readouterr().err
    assert "note: mode is 'max', so worse values of val_loss count as better ones" in said
    assert "UserWarning" not in said
