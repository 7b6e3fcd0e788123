"""`odtc train --find-lr`: what it prints, and what it refuses."""

from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits, trained


def test_it_prints_a_curve_and_a_suggestion(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str], run_json
):
    found = run_json(*trained(digits, "--find-lr", "--threads", "1", "--seed", "3"))
    assert 1e-4 < found["suggestion"] < 0.5
    assert len(found["curve"]) > 30
    assert [*found["curve"][0]] == ["lr", "loss", "smoothed"]
    assert main(trained(digits, "--find-lr", "--threads", "1", "--seed", "3")) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert f"suggestion: {found['suggestion']:.2g}, where the loss falls steepest (O)" in lines
    assert sum("|" in line for line in lines) == 10
    assert "fill no batch" not in captured.err
    assert not [*here.iterdir()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--export", "out.onnx"], "--find-lr saves nothing, and --export is"),
        (["--checkpoint", "c.ckpt"], "--checkpoint is for a run"),
        (["--epochs", "3"], "--epochs is for a run"),
        (["--lr", "0.1"], "not allowed with argument"),
    ],
)
def test_what_is_of_a_run_is_refused(
    digits: Digits,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
):
    assert main(trained(digits, "--find-lr", *options)) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_run_needs_a_rate(digits: Digits, capsys: pytest.CaptureFixture[str]):
    assert main(trained(digits)) == ExitCode.USAGE
    assert "one of the arguments --lr --find-lr is required" in capsys.readouterr().err
