"""The benchmarks of the native runtime run, and find the losses of all trainers equal."""

import pytest

from benchmarks.native_runtime import beside
from benchmarks.native_runtime.__main__ import main
from odtc.runtime_rpc.native.build import FOLDER


@pytest.mark.slow
def test_the_losses_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", "digits", "--threads", "1", "--turns", "1"]) == 0
    printed = capsys.readouterr().out
    assert "runtime, -O2" in printed
    assert "onnxruntime-training" in printed
    assert "equal" in printed


@pytest.mark.slow
def test_steps_beside_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--models", "digits", "--programs", "1", "--seconds", "0.1", "--turns", "1"]
    assert beside.main([*short, "--other", str(FOLDER)]) == 0
    assert "threads=2, other" in " ".join(capsys.readouterr().out.split())
