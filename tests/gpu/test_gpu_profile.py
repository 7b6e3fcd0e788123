"""Profiles of steps on this machine's GPU devices, whose kernels are waited for."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from tests.gpu.on_device import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernels_time_is_that_of_the_device(kind: str, tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", f"host-{kind}", batch=64)
    trainer, (x, y, *_) = artifact.trainer(), digits_data()
    plain = artifact.trainer()
    losses = [trainer.step(x[:64], y[:64], lr=0.1)]
    with trainer.profile() as profiling:
        losses += trainer.train([(x[:64], y[:64])] * 3, lr=0.1)
    profile = profiling.profile
    assert profile.waited
    assert [each.kernel for each in profile.operators] == list(artifact.memory.plan.calls)
    assert len(profile.steps) == 3
    assert profile.coverage > 0.5
    assert losses == [plain.step(x[:64], y[:64], lr=0.1) for _ in range(4)]
    # What is left of a step when its kernels were waited for is the loss alone.
    assert profile.moved_seconds("download") < 0.5 * float(np.median(profile.step_seconds))
