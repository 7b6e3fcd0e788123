"""Mistakes of newcomers who know the README alone: each error says what to do."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode, OdtcError
from tests.cli.training.digits import BATCH, Digits

X, Y = np.zeros((BATCH, 1, 8, 8), np.float32), np.zeros(BATCH, np.int64)
TRAIN = ["train", "ART", "--data", "DATA", "--lr", "0.1"]

COMMANDS = {
    "an option nearly right": ([*TRAIN, "--epoch", "1"], "did you mean --epochs?"),
    "an option of another command": (
        [*TRAIN, "--optimizer", "adam"],
        "it is compiled into the step: odtc compile --loss --optimizer",
    ),
    "the help of that command": (["targets", "host-cpu"], "`odtc targets --help`"),
    "a folder for a file": (["compile", "MODEL", "-o", "out/"], "'out/' names a folder"),
    "a folder for a checkpoint": ([*TRAIN, "--checkpoint", "c/"], "'c/' names a folder"),
    "an optimizer's name": (["compile", "MODEL", "--optimizer", "Adam"], "did you mean adam?"),
    "a loss of Keras": (
        ["compile", "MODEL", "--loss", "categorical_crossentropy"],
        "did you mean cross-entropy{soft-labels=true}?",
    ),
    "a loss in other letters": (
        ["compile", "MODEL", "--loss", "CrossEntropy"],
        "did you mean cross-entropy?",
    ),
    "a device of PyTorch": ([*TRAIN, "--device", "cuda:0"], "leave it out for this machine"),
    "a parameter nearly right": (
        ["compile", "MODEL", "--batch", "2", "--train", "fc1.wieght"],
        "did you mean fc1.weight?",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_is_told(case: str, digits: Digits, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    argv, text = COMMANDS[case]
    names = {"ART": digits.artifact, "DATA": digits.train, "MODEL": digits.model}
    assert main([str(names.get(part, part)) for part in argv]) != 0
    assert text in " ".join(capsys.readouterr().err.split())
    assert not [*tmp_path.iterdir()]


@pytest.fixture(scope="module")
def trainer(digits: Digits):
    with odtc.load(digits.artifact) as artifact, artifact.trainer(threads=1) as trainer:
        yield trainer


CALLS = {
    "no learning rate": (lambda t: t.step(X, Y), "no learning rate is given"),
    "a schedule for a step": (
        lambda t: t.step(X, Y, lr=odtc.schedules.Cosine(0.1, steps=9)),
        "lr=schedule(trainer.updates)",
    ),
    "channels last": (lambda t: t.step(X.transpose(0, 2, 3, 1), Y, lr=0.1), "in another order"),
    "the rest of an epoch": (lambda t: t.step(X[:3], Y[:3], lr=0.1), "drop_last=True"),
    "an optimizer with a rate": (lambda _: odtc.SGD(lr=0.1), "goes to each step"),
    "an optimizer with a rate by place": (lambda _: odtc.Adam(1e-3), "beta1"),
    "one layer of a list": (lambda _: odtc.Group([nn.Linear(1, 1)]), "a glob over the names"),
    "LoRA as in PEFT": (lambda _: odtc.LoRA(r=8, lora_alpha=16), "it is rank"),
    "a shape for an input": (
        lambda _: odtc.from_torch(nn.Linear(4, 3), (2, 4), "never.onnx"),
        "such as torch.zeros(2, 3, 32, 32)",
    ),
    "a list of inputs": (
        lambda _: odtc.from_torch(nn.Linear(4, 3), [torch.ones(2, 4)], "never.onnx"),
        "a list is one argument of forward: give a tuple",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_is_told(case: str, trainer: odtc.Trainer):
    call, text = CALLS[case]
    with pytest.raises(OdtcError) as caught:
        call(trainer)
    assert text in str(caught.value)


def test_class_numbers_for_a_loss_of_elements(digits: Digits):
    with odtc.compile(digits.model, batch=2, loss="mse").trainer(threads=1) as trainer:
        with pytest.raises(OdtcError, match=r"np\.eye\(classes\)\[labels\]"):
            trainer.step(X[:2], Y[:2], lr=0.1)
        trainer.step(X[:2], np.eye(10)[Y[:2]], lr=0.1)


def test_a_closed_artifact_is_called_so(digits: Digits):
    artifact = odtc.load(digits.artifact)
    artifact.close()
    for use in (artifact.trainer, lambda: artifact.save("never.odtc"), lambda: artifact.memory):
        with pytest.raises(OdtcError, match="the artifact is closed"):
            use()


def test_what_was_exported_stands_for_its_file(tmp_path: Path):
    exported = odtc.from_torch(nn.Linear(4, 3), torch.ones(2, 4), tmp_path / "m.onnx")
    assert odtc.compile(exported, batch=2).manifest.model == "m.onnx"


def test_a_module_that_is_all_frozen(tmp_path: Path):
    module = nn.Linear(4, 3).requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = odtc.from_torch(module, torch.ones(2, 4), tmp_path / "m.onnx")
    with pytest.raises(OdtcError, match="all parameters are frozen: the file says so of 2"):
        odtc.compile(exported, batch=2)
    assert odtc.compile(exported, batch=2, train=["weight"])


def test_measurements_that_are_not_there_are_said(digits: Digits):
    (note,) = [
        note
        for note in odtc.compile(digits.model, batch=2, database="tuned.json").manifest.notes
        if "measurements" in note
    ]
    assert note == "database changes nothing: there is no such file of measurements yet"


def test_a_warm_up_longer_than_the_run_is_said(digits: Digits, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    argv = [{"ART": str(digits.artifact), "DATA": str(digits.train)}.get(a, a) for a in TRAIN]
    assert main([*argv, "--steps", "2", "--warmup", "10"]) == 0
    assert "all 2 updates are of the warm-up, which takes 10" in capsys.readouterr().err


def test_names_of_the_package_nearly_right():
    with pytest.raises(AttributeError, match=r"'Sgd'; did you mean SGD\?"):
        _ = odtc.Sgd  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["trian", "m.odtc"], "train"),
        (["compile-model", "m.onnx"], "compile"),
        (["train", "m.odtc", "--data", "d.npz", "--lr", "1", "--schedul", "cosine"], "--schedule"),
        (["compile", "m.onnx", "--on-nonfinite", "skp"], "skip"),
        (["export-app", "m.odtc", "-o", "app", "--platform", "iOS"], "ios"),
        (["compile", "m.onnx", "--optimizer", "rms"], "rmsprop"),
        (["compile", "m.onnx", "--optimizer", "sdg"], "sgd"),
    ],
)
def test_a_misspelt_word_has_a_suggestion(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    assert f"did you mean {near}?" in capsys.readouterr().err


APP = ["export-app", "m.odtc", "-o", "app", "--platform"]


@pytest.mark.parametrize(
    ("words", "command"),
    [(["frobnicate"], "odtc"), ([*APP, "windows"], "odtc export-app")],
)
def test_a_word_that_is_like_none_has_no_suggestion(
    words: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "did you mean" not in said
    assert f"`{command} --help` shows what is available" in said


def test_dir_lists_what_there_is() -> None:
    assert {"compile", "load", "Trainer", "__version__"} <= set(dir(odtc))
    assert "import_module" not in dir(odtc)
    assert all(hasattr(odtc, name) for name in dir(odtc))


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "PATH"],
        ["train", "PATH", "--data", "d.npz", "--lr", "1"],
        ["train", "ART", "--data", "PATH", "--lr", "1"],
    ],
)
@pytest.mark.parametrize(
    ("kind", "said"), [("folder", "is a folder"), ("pipe", "is a pipe or a device, not a file")]
)
def test_a_path_that_is_no_file_says_what_it_is(
    words: list[str],
    kind: str,
    said: str,
    digits: Digits,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "path"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    given = {"PATH": path, "ART": digits.artifact}
    assert main([str(given.get(word, word)) for word in words]) != ExitCode.OK
    assert said in capsys.readouterr().err


def test_a_schedule_shorter_than_the_run_is_said(
    digits: Digits, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    argv = [{"ART": str(digits.artifact), "DATA": str(digits.train)}.get(a, a) for a in TRAIN]
    assert main([*argv, "--steps", "6", "--schedule", "cosine{steps=2}"]) == 0
    said = capsys.readouterr().err
    assert "cosine ends after 2 of 6 updates; the learning rate stays at 0\n" in said
