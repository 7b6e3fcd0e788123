"""Empty words of a command line, as of a variable that the shell does not have."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "a.odtc", "--data", "x.npz", "--device", ""], "--device is given"),
        (["train", "a.odtc", "--data", "x.npz", "--device="], "--device is given"),
        (["train", "a.odtc", "--data", "x.npz", "--adapter", ""], "--adapter is given"),
        (["compile", "m.onnx", "-o", ""], "-o is given"),
        (["train", ""], "an argument is"),
        ([""], "an argument is"),
        (["generate", "a.odtc", "--prompt", ""], "--prompt is given"),
    ],
)
def test_an_empty_word_is_not_as_if_it_were_not_there(
    words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.err.startswith(f"error: {said} an empty string\n  hint: set the shell variable")
    assert not told.out


def test_an_empty_option_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odtc.toml").write_text('[train]\ndevice = ""\n')
    assert main(["train", "a.odtc", "--data", "x.npz"]) == ExitCode.USAGE
    assert "it takes a string that is not empty" in capsys.readouterr().err


def test_what_another_program_is_given_may_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    main(["device", "shell", "no-such-serial", "--", "echo", ""])
    assert "empty string" not in capsys.readouterr().err
