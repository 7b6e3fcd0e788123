"""Which options hold for a command line: it wins over model, target and command."""

import argparse
import shutil
from pathlib import Path

import pytest

from odtc.cli.config.apply import options_for, spelled, take_options
from odtc.cli.config.file import parsed
from odtc.cli.main import build_parser
from odtc.core.errors import UsageError
from tests.cli.training.digits import Digits

TEXT = """
[compile]
batch = 1
optimizer = "adam"
train = ["a", "b"]
no-dropout = true
clip-norm = 1.0
output = "x.odtc"

[target.android-cpu.compile]
batch = 2
memory-budget = "1MiB"

[model."digits".compile]
batch = 3
no-dropout = false

[model."nets/*.onnx".compile]
target = "android-cpu"
clip-value = 2.0

[train]
data = "d.npz"
lr = 0.1
epochs = 2

[target.host-cpu.train]
threads = 2

[target.android-cpu.train]
threads = 9
"""


def taken(line: str) -> list[str]:
    return [
        spelled(each) for each in options_for(build_parser(), line.split()).found.settings.values()
    ]


@pytest.fixture(autouse=True)
def file(here: Path) -> Path:
    (here / "odtc.toml").write_text(TEXT)
    return here / "odtc.toml"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "compile x.onnx",
            "--batch 1, --optimizer adam, --train a b, --no-dropout, --clip-norm 1.0, "
            "--output x.odtc",
        ),
        # A table for the target wins over that of the command, one for the model over both.
        (
            "compile x.onnx --target android-cpu{mcpu=cortex-a55}",
            "--batch 2, --optimizer adam, --train a b, --no-dropout, --clip-norm 1.0, "
            "--output x.odtc, --memory-budget 1MiB",
        ),
        (
            "compile some/digits.onnx --target android-cpu",
            "--batch 3, --optimizer adam, --train a b, --clip-norm 1.0, --output x.odtc, "
            "--memory-budget 1MiB",
        ),
        # A model may choose its target, and one option of two takes the place of the other.
        (
            "compile nets/a.onnx",
            "--batch 2, --optimizer adam, --train a b, --no-dropout, --output x.odtc, "
            "--memory-budget 1MiB, --target android-cpu, --clip-value 2.0",
        ),
        # The command line wins, whole: lists are not joined.
        (
            "compile x.onnx --train c --batch=7 --clip-value 1 -o y.odtc",
            "--optimizer adam, --no-dropout",
        ),
        # What makes no artifact shares what says which step it is.
        (
            "plan x.onnx",
            "--batch 1, --optimizer adam, --train a b, --no-dropout, --clip-norm 1.0",
        ),
        ("train q.odtc --steps 3", "--data d.npz, --lr 0.1, --threads 2"),
        ("train q.odtc --no-config", ""),
        ("train q.odtc --help", ""),
        ("targets", ""),
        ("trian", ""),
        ("", ""),
    ],
)
def test_what_holds(line: str, expected: str):
    assert ", ".join(taken(line)) == expected


def test_an_artifact_has_a_target(digits: Digits, here: Path):
    shutil.copy(digits.artifact, here / "a.odtc")
    assert "--threads 2" in taken("train a.odtc")


def test_two_of_which_a_command_takes_one(file: Path):
    file.write_text("[train]\nlr = 1\nsteps = 3\nepochs = 2\n")
    with pytest.raises(UsageError, match="steps and epochs are not allowed together") as error:
        taken("train x.odtc --data d.npz")
    assert error.value.where == "odtc.toml, line 4"


def test_one_of_two_that_a_command_needs_may_be_in_the_file(file: Path):
    parser = argparse.ArgumentParser()
    run = parser.add_subparsers(dest="command").add_parser("run")
    rate = run.add_mutually_exclusive_group(required=True)
    rate.add_argument("--lr", type=float)
    rate.add_argument("--find-lr", action="store_true")
    options = parsed(b"[run]\nlr = 0.5\n", file)
    take_options(parser, ["run", "--find-lr"], options)
    assert vars(parser.parse_args(["run", "--find-lr"])) == {
        "command": "run",
        "lr": None,
        "find_lr": True,
    }
    take_options(parser, ["run"], options)
    assert parser.parse_args(["run"]).lr == 0.5


def test_words_that_are_wrong_are_errors_as_ever():
    with pytest.raises(UsageError, match="invalid int value: 'x'"):
        taken("compile x.onnx --batch x")
    with pytest.raises(UsageError, match="not allowed with argument"):
        taken("train x.odtc --steps 1 --epochs 2")
