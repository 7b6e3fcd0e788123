"""The benchmark of the native runtime runs, and finds the losses of both trainers equal."""

import pytest

from benchmarks.native_runtime.__main__ import main


@pytest.mark.slow
def test_the_losses_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", "digits", "--threads", "1", "--turns", "1"]) == 0
    printed = capsys.readouterr().out
    assert "runtime, -O2" in printed
    assert "onnxruntime-training" in printed
    assert "equal" in printed
