"""The first step on a GPU has what its driver compiles in it, and no part in the mean."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.cli.main import main
from tests.errors.models import LINEAR

STEPS, BATCH = 4, 4


def compiled(folder: Path, target: str) -> list[str]:
    """The command line that trains a small model."""
    onnx.save(LINEAR, folder / "m.onnx")
    odtc.compile(folder / "m.onnx", target, batch=BATCH).save(folder / "m.odtc")
    x = np.random.default_rng(0).normal(size=(BATCH * STEPS, 4)).astype(np.float32)
    np.savez(folder / "d.npz", x=x, label=np.arange(len(x)) % 3)
    return ["train", str(folder / "m.odtc"), "--data", str(folder / "d.npz"), "--lr", "0.1"]


@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
def test_the_first_step_on_a_gpu_is_told_apart(tmp_path: Path, kind: str, run_json, capsys):
    run = compiled(tmp_path, f"host-{kind}")
    found = run_json(*run)
    assert found["steps_taken"] == STEPS
    assert found["first_steps"] == 1
    assert found["first_steps_ms"] > 0
    assert found["samples_per_second"] == pytest.approx(1000 * BATCH / found["step_ms"])
    assert not main(run)
    out = capsys.readouterr().out
    assert " ms a step without the first step " in out
    assert " ms, in which the driver compiles, " in out
    # Of one step there is nothing else to tell.
    found = run_json(*run, "--steps", "1")
    assert found["first_steps"] == 1
    assert not {"step_ms", "samples_per_second"} & found.keys()


def test_on_a_cpu_each_step_counts(tmp_path: Path, run_json):
    found = run_json(*compiled(tmp_path, "host-cpu"))
    assert "first_steps" not in found
    assert found["step_ms"] > 0
