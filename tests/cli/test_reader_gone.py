"""A reader of stdout that goes, as `| head -1` does, ends each command without a word."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import odtc.cli
from odtc.cli.main import build_parser, main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits

NAMES = next(iter(each.choices for each in build_parser()._actions if each.choices))
SECONDS = 300


def unread(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command whose stdout nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as stdout, monkeypatch.context() as patched:
        # In the test itself: pytest puts its own into place before each.
        patched.setattr(sys, "stdout", stdout)
        return main(words)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], *([name, "--help"] for name in NAMES)], ids=" ".join
)
def test_of_help(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert unread(words, monkeypatch) == ExitCode.READER_GONE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", ["targets", "targets --json", "completion bash", "cache --json"])
def test_of_data(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert unread(line.split(), monkeypatch) == ExitCode.READER_GONE
    assert "error" not in capsys.readouterr().err


def test_of_predictions(digits: Digits, here: Path):
    words = ["predict", digits.artifact, "--data", digits.test]
    with subprocess.Popen(
        [sys.executable, "-m", "odtc", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.READER_GONE
    assert "error" not in said
    assert "Exception" not in said


def test_all_data_goes_through_the_console():
    """What prints by itself would end in another way."""
    folder = Path(odtc.cli.__file__).parent
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"(?<![\w.])print\(|sys\.stdout\.", path.read_text())
    }
    assert found == {"console.py"}
