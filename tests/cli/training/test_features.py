"""`odtc train --feature-cache`: frozen layers run once for each sample, and it is said."""

from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import BATCH, Digits

ONCE = "note: what frozen layers make of 200 samples"


@pytest.fixture
def frozen(digits: Digits, here: Path) -> str:
    """A step that trains the last layer of the digits' model."""
    options = ("--batch", str(BATCH), "--train", "last{k=1}", "-o", "frozen.odtc")
    assert main(["compile", str(digits.model), *options]) == 0
    return "frozen.odtc"


def test_a_run_with_a_cache_is_the_one_without(
    digits: Digits, here: Path, frozen: str, capsys: pytest.CaptureFixture[str]
):
    run = ["train", frozen, "--data", str(digits.train), "--epochs", "4", "--lr", "0.05"]
    run += ["--validation", str(digits.test)]
    assert main([*run, "--checkpoint", "kept.ckpt"]) == 0
    assert ONCE in capsys.readouterr().err
    assert main([*run, "--checkpoint", "anew.ckpt", "--feature-cache", "0"]) == 0
    assert "frozen layers" not in capsys.readouterr().err
    assert Path("kept.ckpt").read_bytes() == Path("anew.ckpt").read_bytes()
    longer = [word if word != "4" else "6" for word in run]
    assert main([*longer, "--checkpoint", "kept.ckpt", "--resume"]) == 0
    assert ONCE in capsys.readouterr().err


def test_what_keeps_from_it_is_said(
    digits: Digits, here: Path, frozen: str, capsys: pytest.CaptureFixture[str]
):
    run = ["train", frozen, "--data", str(digits.train), "--lr", "0.05"]
    assert main(run) == 0
    assert "is computed at each step: no sample is taken twice" in capsys.readouterr().err
    assert main([*run, "--epochs", "3", "--feature-cache", "1KiB"]) == 0
    assert "and 1,024 may be kept (--feature-cache, feature_cache)" in capsys.readouterr().err
    assert main([*run, "--feature-cache", "some"]) == ExitCode.USAGE
    assert "'some' is not a positive number of bytes" in capsys.readouterr().err
