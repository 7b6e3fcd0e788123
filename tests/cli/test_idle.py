"""Options that change nothing beside others are told, each row of the tables, and only there."""

import shlex
from pathlib import Path

import pytest

from odtc.cli.idle import OF_COMMANDS, idle_notes
from odtc.cli.main import build_parser, main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits, trained

TRAIN = "train a.odtc --data d.npz --lr 0.1"
FIND = "train a.odtc --data d.npz --find-lr"

# Command lines, with the options that they have in vain.
LINES = {
    f"{TRAIN} --ema": ["ema"],
    f"{TRAIN} --ema --validation v.npz": [],
    f"{TRAIN} --ema --export-peft folder": [],
    f"{TRAIN} --validation v.npz --best b --restore-best": ["restore-best"],
    f"{TRAIN} --validation v.npz --best b --restore-best --eval-data v.npz": [],
    f"{TRAIN} --export e.onnx --no-verify --export-training": ["no-verify"],
    f"{TRAIN} --export e.onnx --no-verify --no-merge": ["no-verify"],
    f"{TRAIN} --export e.onnx --no-verify": [],
    f"{TRAIN} --load-adapters a --checkpoint there --resume": ["load-adapters"],
    f"{TRAIN} --load-adapters a --checkpoint none --resume": [],
    f"{TRAIN} --load-adapters a": [],
    f"{FIND} --schedule cosine --feature-cache 0 --ema": ["ema", "feature-cache", "schedule"],
    f"{FIND} --seed 2": [],
    "tune m.onnx --list --time 9 --trials 2 --device adb://x --rounds 3 --cooldown": [
        *("cooldown", "devices", "rounds", "time", "trials"),
    ],
    "tune m.onnx --list --part 1/2": [],
    "tune m.onnx --time 9": [],
    "sweep a.odtc --batch 2 --target x --loss mse --shape a=2": [
        *("batch", "loss", "shape", "target"),
    ],
    "sweep a.odtc m.onnx --batch 2": [],
    "check m.onnx --against w.pt --batch 2 --target x --optimizer adam --no-dropout": [
        *("batch", "dropout", "optimizer", "target"),
    ],
    "check m.onnx --against w.pt --all": [],
    "check m.onnx --batch 2": [],
    "inspect a.odtc --memory --layouts": ["memory"],
    "inspect a.odtc --memory --layouts --json": [],
    "profile a.odtc --steps-per-call 4": ["steps-per-call"],
    "profile a.odtc --steps-per-call 4 --device adb://x": [],
    "compare m.onnx --module m.py:make --with mnn": ["module"],
    "compare m.onnx --module m.py:make": [],
}


def named(notes: list[str]) -> list[str]:
    return sorted(note.partition(" ")[0].removeprefix("--") for note in notes)


@pytest.mark.parametrize("line", LINES)
def test_options_beside_others(line: str, here: Path):
    (here / "there").touch()
    args = build_parser().parse_args(shlex.split(line))
    assert named([*idle_notes(args)]) == LINES[line]


def test_each_row_has_a_line():
    said = {
        (line.partition(" ")[0], name.replace("-", "_"))
        for line, names in LINES.items()
        for name in names
    }
    rows = {(name, row.option) for name, table in OF_COMMANDS.items() for row in table}
    # Of `check` all options of a step are rows that are made alike.
    assert {row for row in rows - said if row[0] != "check"} == set()


OF_A_RUN = {
    "--storage .": ["storage"],
    "--offload-state --storage .": [],
    "--follow-memory": ["follow-memory"],
    "--memory-budget 1GiB --feature-cache 0": ["feature-cache", "memory-budget"],
    "--steps-per-call 2 --feature-cache 2MiB": ["feature-cache", "steps-per-call"],
    "--schedule step{every=4}": ["schedule"],
    "--validation {test} --patience 3 --validate-every 9": ["patience", "validate-every"],
    "--checkpoint c --checkpoint-every 4": ["checkpoint-every"],
    "--weights-folder .": ["weights-folder"],
    "--checkpoint c --checkpoint-every 3 --schedule step{every=3} --seed 2": [],
}


@pytest.mark.parametrize("options", OF_A_RUN)
def test_options_of_a_run(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str], options: str
):
    words = shlex.split(options.replace("{test}", str(digits.test)))
    run = trained(digits, "--lr", "0.01", "--steps", "4", *words)
    assert main(run) == ExitCode.OK
    lines = capsys.readouterr().err.splitlines()
    notes = [line.removeprefix("note: ") for line in lines if "changes nothing" in line]
    assert named(notes) == OF_A_RUN[options], lines


@pytest.mark.parametrize("options", ["--ema", "--restore-best"])
def test_an_error_is_not_contradicted(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str], options: str
):
    run = trained(digits, "--lr", "0.01", "--steps", "4", options)
    assert main(run) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    # Nor does the note wait for another command.
    assert main(["targets"]) == ExitCode.OK
    assert "changes nothing" not in capsys.readouterr().err


def test_a_run_without_an_update(digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]):
    compiled = ["compile", str(digits.model), "--batch", "16", "--accumulate", "4", "-o", "a.odtc"]
    assert main([*compiled, "--seed", "1"]) == ExitCode.OK
    assert "note: seed changes nothing: the model has no dropout" in capsys.readouterr().err
    data = ["--data", str(digits.train), "--lr", "0.1", "--steps", "3"]
    assert main(["train", "a.odtc", *data]) == ExitCode.OK
    said = capsys.readouterr().err
    assert "note: --lr changes nothing: no update is made: the run has fewer steps" in said
    assert "changed no weight" not in said
    assert "warm-up" not in said
