"""`odtc completion` in real shells: bash, zsh and fish."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odtc.cli.main import COMMANDS, build_parser, main
from odtc.cli.parser_tree import commands_of
from odtc.core.errors import ExitCode
from tests.cli.shells import in_bash, in_fish, in_zsh

Ask = Callable[[str], set[str]]
SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(params=SHELLS)
def ask(request: pytest.FixtureRequest, here: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A shell that has the script, in a folder with some files."""
    for name in ("a.onnx", "b.odtc", "c.npz", "d.csv", "e.txt"):
        (here / name).touch()
    (here / "folder").mkdir()
    assert main(["completion", request.param]) == ExitCode.OK
    script = here / "script.txt"
    script.write_text(capsys.readouterr().out)
    return lambda line: SHELLS[request.param](script, line)


def test_commands(ask: Ask):
    assert {"train", "targets", "tune"} <= ask("odtc t")
    assert {"setup", "stop", "doctor"} <= ask("odtc device ")


def test_options_and_their_values(ask: Ask):
    assert {"--schedule", "--seed", "--steps"} <= ask("odtc train --s")
    assert {"constant", "cosine", "one-cycle"} <= ask("odtc train --schedule ")
    assert {"adamw", "adagrad", "adam"} <= ask("odtc compile --optimizer a")
    assert {"android-cpu", "android-opencl"} <= ask("odtc compile --target android-")
    assert {"f1", "accuracy", "r2"} <= ask("odtc train --metrics ")


def test_files_by_their_endings(ask: Ask):
    files = {"a.onnx", "b.odtc", "c.npz", "d.csv", "e.txt"}
    assert ask("odtc compile ") & files == {"a.onnx"}
    assert ask("odtc train ") & files == {"b.odtc"}
    data = ask("odtc train --data ")
    assert data & files == {"c.npz", "d.csv"}
    assert {"folder", "folder/"} & data


def test_every_command_is_in_the_script(capsys: pytest.CaptureFixture[str]):
    assert main(["completion", "bash"]) == ExitCode.OK
    script = capsys.readouterr().out
    assert len(commands_of(build_parser())) == len(COMMANDS)
    for name in commands_of(build_parser()):
        assert f"_shtab_odtc_{name.replace('-', '_')}_option_strings=" in script


def test_another_shell(capsys: pytest.CaptureFixture[str]):
    assert main(["completion", "zhs"]) == ExitCode.USAGE
    assert "did you mean zsh?" in capsys.readouterr().err
