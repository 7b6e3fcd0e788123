"""`odtc init`: what it writes works, and it asks on a terminal alone."""

import os
import pty
import select
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from odtc.cli.config.written import Answers, text_of
from odtc.cli.main import main
from odtc.core.errors import ExitCode, UsageError
from tests.cli.training.digits import Digits


@pytest.fixture
def folder(digits: Digits, here: Path) -> Path:
    shutil.copy(digits.model, here / "d.onnx")
    shutil.copy(digits.train, here / "train.npz")
    return here


def written(folder: Path) -> dict:
    return tomllib.loads((folder / "odtc.toml").read_text())


def test_what_it_prints_next_works(folder: Path, capsys):
    words = ["init", "d.onnx", "--data", "train.npz", "--batch", "8", "--train", "fc*"]
    assert main(words) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out == "odtc compile\n"
    assert "wrote odtc.toml" in printed.err
    assert written(folder)["compile"] == {
        "model": "d.onnx",
        "target": "host-cpu",
        "batch": 8,
        "train": ["fc*"],
        "optimizer": "adamw",
        "output": "d.odtc",
    }
    assert main(printed.out.split()[1:]) == ExitCode.OK
    assert "4 of 8 weight tensors are trained" in capsys.readouterr().err
    assert main(["train", "--steps", "2", "--epochs", "1"]) == ExitCode.USAGE
    assert main(["train", "--steps", "2"]) == ExitCode.OK
    assert (folder / "d.ckpt").exists()


def test_it_writes_over_no_file(folder: Path, capsys):
    words = ["init", "d.onnx", "--data", "train.npz"]
    (folder / "odtc.toml").write_text("# mine\n")
    assert main(words) == ExitCode.USAGE
    assert (folder / "odtc.toml").read_text() == "# mine\n"
    (folder / "odtc.toml").unlink()
    (folder / "pyproject.toml").write_text("[tool.odtc.train]\nlr = 1\n")
    assert main(words) == ExitCode.USAGE
    assert "there are options of odtc in this folder" in capsys.readouterr().err
    assert not (folder / "odtc.toml").exists()


def test_a_file_above_is_told(folder: Path, capsys):
    (folder / "odtc.toml").write_text("[train]\nlr = 1\n")
    below = folder / "below"
    below.mkdir()
    os.chdir(below)
    assert main(["init", "../d.onnx", "--data", "../train.npz"]) == ExitCode.OK
    assert "note: ../odtc.toml no longer applies in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], ExitCode.USAGE, "there is no model and no data, and no terminal to ask on"),
        (["d.onnx"], ExitCode.USAGE, "there is no data, and no terminal to ask on"),
        (["d.onnx", "--data", "none.npz"], ExitCode.USAGE, "the file does not exist"),
        (["train.npz", "--data", "train.npz"], ExitCode.MODEL, "it is a file of arrays"),
        (["d.onnx", "--data", "train.npz", "--train", "no*"], ExitCode.USAGE, "matches 'no*'"),
        (["d.onnx", "--data", "train.npz", "--target", "host"], ExitCode.USAGE, "did you mean"),
        (["d.onnx", "--data", "train.npz", "--loss", "mes"], ExitCode.USAGE, "did you mean mse?"),
        (["d.onnx", "--data", "train.npz", "--shape", "N"], ExitCode.USAGE, "is not the size"),
    ],
)
def test_nothing_is_written_of_what_does_not_work(
    words: list[str], code: ExitCode, said: str, folder: Path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin", None)
    assert main(["init", *words]) == code
    assert said in capsys.readouterr().err
    assert not (folder / "odtc.toml").exists()


def test_four_questions_on_a_terminal(folder: Path):
    """Empty answers take what is in brackets; one that is none is asked for again."""
    host, terminal = pty.openpty()
    command = [sys.executable, "-m", "odtc", "init"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
    ) as process:
        os.close(terminal)
        os.write(host, b"none.onnx\n\n\nhost-cqu\n\nlora\n")
        said = b""
        while select.select([host], [], [], 60)[0]:
            try:
                said += os.read(host, 4096)
            except OSError:  # the terminal's other end is closed
                break
    os.close(host)
    assert process.returncode == ExitCode.OK, said
    assert said.count(b"Which model, an ONNX file? [d.onnx]") == 2
    assert b"did you mean host-cpu?" in said
    found = written(folder)
    assert found["compile"]["lora"] == "rank=8"
    assert "train" not in found["compile"]
    assert found["train"]["data"] == "train.npz"


@pytest.mark.parametrize("name", ["a b.onnx", 'q"uo\\te.onnx', "ü\x7f\x01\U0001f600.onnx", "a\nb"])
def test_names_are_written_as_they_are(name: str):
    found = tomllib.loads(text_of(Answers(name, name, "host-cpu")))
    assert found["compile"]["model"] == found["train"]["data"] == name


def test_a_name_that_is_no_text():
    with pytest.raises(UsageError, match="not UTF-8"):
        text_of(Answers("\udcff.onnx", "x", "host-cpu"))
