"""`odtc train --resume` goes on with the run that the checkpoint is of, and with no other."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.cli.main import main
from odtc.cli.training.resuming import OVERRULED
from odtc.core.errors import ExitCode
from tests.cli.training.digits import SAMPLES, Digits, trained
from tests.runtime_rpc.trainer.test_checkpoints import old_format

LAST = (
    "  hint: give what it was written with, or pass --resume-anyway to go on with what is given now"
)


@pytest.fixture(scope="module")
def other(digits: Digits, tmp_path_factory: pytest.TempPathFactory) -> Digits:
    """The same with another artifact, in which all but the tensors is different."""
    path = tmp_path_factory.mktemp("other") / "other.odtc"
    optimizer = odtc.SGD(momentum=0.8, nesterov=True)
    loss = "cross-entropy{label_smoothing=0.1}"
    update = odtc.Update(optimizer, clip_norm=1.0)
    odtc.compile(digits.model, batch=8, optimizer=update, loss=loss).save(path)
    return replace(digits, artifact=path)


@pytest.fixture
def started(digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A checkpoint of three steps."""
    assert main(trained(digits, *options(), "--steps", "3")) == ExitCode.OK
    capsys.readouterr()
    return here / "c"


def options(**changed: str) -> list[str]:
    given = {"lr": "0.05", "seed": "3", "schedule": "constant", "warmup": "0"} | changed
    return ["--checkpoint", "c", *(part for k, v in given.items() for part in (f"--{k}", v))]


def changes(err: str) -> list[str]:
    """Returns the names of the changes that an error or notes list, without their values."""
    lines = [line.partition("this changed: ")[2] or line for line in err.splitlines()]
    return [
        line.strip().partition(": ")[0]
        for line in lines
        if ", now " in line and not line.startswith("  hint")
    ]


def refused_then_overruled(
    argv: list[str], checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Returns the changes that `--resume` refuses; `--resume-anyway` must go on and note them."""
    before = checkpoint.read_bytes()
    assert main([*argv, "--steps", "5", "--resume"]) == ExitCode.ARTIFACT
    refusal = capsys.readouterr().err
    assert "error: the checkpoint is from a different run:\n" in refusal
    assert refusal.endswith(f"\n  where: c\n{LAST}\n")
    assert checkpoint.read_bytes() == before
    assert main([*argv, "--steps", "5", "--resume-anyway"]) == ExitCode.OK
    err = capsys.readouterr().err
    assert set(changes(refusal)) <= set(changes(err))
    assert "resumed from c at step 3 of 5" in err
    return changes(refusal)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"seed": "4"}, ["seed"]),
        ({"lr": "0.01"}, ["schedule"]),
        ({"schedule": "cosine"}, ["schedule"]),
        ({"warmup": "2", "seed": "0"}, ["schedule", "seed"]),
    ],
)
def test_another_order_or_schedule_is_another_run(
    digits: Digits, started: Path, capsys, changed: dict[str, str], names: list[str]
):
    argv = trained(digits, *options(**changed))
    assert refused_then_overruled(argv, started, capsys) == names


def test_a_cosine_over_another_length_is_another_schedule(digits: Digits, here: Path, capsys):
    argv = trained(digits, *options(schedule="cosine"))
    assert main([*argv, "--steps", "3"]) == ExitCode.OK
    capsys.readouterr()
    assert refused_then_overruled(argv, here / "c", capsys) == ["schedule"]


def test_another_step_is_another_run(digits: Digits, other: Digits, started: Path, capsys):
    found = refused_then_overruled(trained(other, *options()), started, capsys)
    assert found == [
        *("batch", "loss", "optimizer.momentum", "optimizer.nesterov", "update.clip_norm"),
    ]


def test_other_data_are_another_run(digits: Digits, started: Path, capsys):
    with np.load(digits.train) as file:
        arrays = dict(file)
    arrays["image"][SAMPLES - 1, 0, 0, 0] += 1
    np.savez("other.npz", **arrays)
    argv = trained(replace(digits, train=Path("other.npz")), *options())
    assert refused_then_overruled(argv, started, capsys) == ["data"]


def test_the_same_data_in_another_file_are_the_same_run(digits: Digits, started: Path, capsys):
    with np.load(digits.train) as file:
        np.savez_compressed("packed.npz", more=np.zeros(3), **dict(file))
    argv = trained(replace(digits, train=Path("packed.npz")), *options(), "--steps", "5")
    assert main([*argv, "--resume"]) == ExitCode.OK
    assert "changed" not in capsys.readouterr().err


def test_what_computes_the_same_is_said_and_goes_on(digits: Digits, started: Path, capsys):
    odtc.compile(digits.model, batch=16, optimizer=odtc.SGD(momentum=0.9), micro_batches=2).save(
        "parts.odtc"
    )
    argv = trained(replace(digits, artifact=Path("parts.odtc")), *options(), "--steps", "5")
    assert main([*argv, "--resume"]) == ExitCode.OK
    err = capsys.readouterr().err
    assert "note: since the checkpoint was written, this changed: micro-batches: 1, now 2" in err
    assert set(changes(err)) == {"micro-batches", "target"}


def test_a_checkpoint_that_says_nothing_of_its_run_goes_on_with_a_note(
    digits: Digits, started: Path, capsys
):
    trainer = odtc.load(digits.artifact).trainer(threads=1)
    trainer.load_checkpoint(started)
    argv = trained(digits, *options(), "--steps", "5", "--resume")
    unknown = "note: c does not say which data, seed and schedule it was written with"
    trainer.save_checkpoint(started)
    assert main(argv) == ExitCode.OK
    err = capsys.readouterr().err
    assert unknown in err
    assert "without hashes" not in err
    trainer.save_checkpoint(started)
    old_format(started)
    assert main(argv) == ExitCode.OK
    err = capsys.readouterr().err
    assert unknown in err
    assert "note: c: a checkpoint of an older odtc: without hashes" in err


def test_a_damaged_checkpoint_is_not_overruled(digits: Digits, started: Path, capsys):
    data = bytearray(started.read_bytes())
    data[-1] ^= 1
    started.write_bytes(data)
    for how in ("--resume", "--resume-anyway"):
        argv = trained(digits, *options(), "--steps", "5", how)
        assert main(argv) == ExitCode.ARTIFACT
        assert "the checkpoint is damaged (tensor " in capsys.readouterr().err
        assert started.read_bytes() == bytes(data)


def test_a_run_whose_weights_are_not_finite_keeps_the_last_checkpoint(
    digits: Digits, started: Path, capsys
):
    before = started.read_bytes()
    argv = trained(digits, *options(lr="3e38"), "--steps", "4", "--resume-anyway")
    assert main(argv) == ExitCode.NUMERIC
    err = capsys.readouterr().err
    assert re.search(r"elements of '\S+' are (-?inf|nan) at step 4 ", err)
    assert started.read_bytes() == before


def test_the_manual_lists_what_is_overruled():
    page = Path(__file__).parents[3] / "docs" / "howto" / "train.md"
    words = " ".join(page.read_text("utf-8").split())
    assert OVERRULED in words


@pytest.mark.parametrize("option", ["--steps", "--epochs"])
def test_more_steps_than_an_int32_counts_are_refused(digits: Digits, capsys, option: str):
    argv = trained(digits, "--lr", "0.1", option, str(2**31))
    assert main(argv) == ExitCode.USAGE
    assert "is not a whole number from 1 to 2147483647" in capsys.readouterr().err
