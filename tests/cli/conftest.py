"""The digits model, compiled once, and the command line in this process."""

import json
from pathlib import Path
from typing import Any

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits, make_digits


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return make_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]):
    """Runs a command with --json and gives the object that it prints."""

    def run(*argv: str | Path, code: int = ExitCode.OK) -> dict[str, Any]:
        assert main([*map(str, argv), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run
