"""Commands that take options from a file, as a user runs them."""

from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits


@pytest.fixture
def project(digits: Digits, here: Path) -> Path:
    (here / "odtc.toml").write_text(
        f"[compile]\nmodel = '{digits.model}'\nbatch = 16\noptimizer = 'sgd{{momentum=0.9}}'\n"
        f"output = 'd.odtc'\n\n[train]\nartifact = 'd.odtc'\ndata = '{digits.train}'\n"
        "lr = 0.05\nsteps = 3\njson = true\n"
    )
    return here


def test_without_a_word_each_command_has_its_options(project: Path, capsys):
    assert main(["compile"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out == "d.odtc\n"
    assert printed.err.startswith("options of odtc.toml: ")
    first = printed.err.splitlines()[0]
    assert first.endswith("--batch 16 --optimizer 'sgd{momentum=0.9}' --output d.odtc")
    assert main(["train", "--steps", "2"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert '"steps": 2' in printed.out
    assert "--lr 0.05 --json" in printed.err
    assert "--steps" not in printed.err


def test_a_run_from_a_file_is_that_of_its_words(project: Path, digits: Digits, run_json):
    words = ["--data", digits.train, "--lr", "0.05", "--steps", "3"]
    by_words = run_json("train", digits.artifact, *words, "--no-config")
    by_file = run_json("train", digits.artifact)
    assert by_file["loss"] == by_words["loss"]


def test_config_says_where_each_comes_from(project: Path, run_json):
    found = run_json("config")
    assert found["file"] == str(project / "odtc.toml")
    assert {"option": "train.lr", "value": "0.05", "from": "odtc.toml, line 10"} in found["options"]


def test_config_of_a_command_line(project: Path, capsys):
    assert main(["config", "train", "--steps", "9"]) == ExitCode.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["steps", "9", "command", "line"]
    assert ["lr", "0.05", "odtc.toml,", "line", "10"] in lines
    assert lines[-1] == ["json", "true", "odtc.toml,", "line", "12"]


@pytest.mark.parametrize(
    ("words", "meant"), [("trian x", "train"), ("config", ""), ("device stpo", ""), ("--lr", "")]
)
def test_config_of_what_is_no_command(words: str, meant: str, here: Path, capsys):
    assert main(["config", *words.split()]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "no command that takes options from a file" in said or "unrecognized" in said
    assert not meant or f"did you mean {meant}?" in said


def test_an_option_that_there_is_not_or_that_comes_too_early(project: Path, capsys):
    assert main(["config", "train", "--epoch", "3"]) == ExitCode.USAGE
    assert "did you mean --epochs?" in capsys.readouterr().err
    words = ["train", "d.odtc", "--data", "d.npz", "--lr", "1"]
    assert main(["--no-config", *words]) == ExitCode.USAGE
    assert "--no-config comes after odtc train" in capsys.readouterr().err


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["targets", "--json"]) == ExitCode.OK
    assert main(["config"]) == ExitCode.OK
    assert not capsys.readouterr().err.startswith("error")


def test_without_a_file(here: Path, capsys):
    assert main(["config"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("there is neither odtc.toml nor [tool.odtc] in pyproject.toml")


def test_a_fault_of_the_file_ends_each_command_but_without_it(here: Path, capsys):
    (here / "odtc.toml").write_text("[train]\nlr = 1\nepoch = 3\n")
    assert main(["targets"]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "error: odtc train has no option 'epoch'\n  where: odtc.toml, line 3\n"
        "  hint: did you mean epochs? `odtc train --help` shows what is available\n"
    )
    assert main(["config"]) == ExitCode.USAGE
    assert main(["targets", "--no-config"]) == ExitCode.OK
    assert main(["train", "--help"]) == ExitCode.OK


def test_another_file(here: Path, capsys):
    other = here / "sub" / "other.toml"
    other.parent.mkdir()
    other.write_text("[targets]\njson = true\n")
    assert main(["targets", "--config", "sub/other.toml"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out.startswith("{")
    assert printed.err == "options of sub/other.toml: --json\n"
    assert main(["targets", "--config", "none.toml"]) == ExitCode.USAGE
    assert "cannot read the options: No such file or directory" in capsys.readouterr().err
    (here / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert main(["targets", "--config", "pyproject.toml"]) == ExitCode.USAGE
    assert "it has no table [tool.odtc]" in capsys.readouterr().err
